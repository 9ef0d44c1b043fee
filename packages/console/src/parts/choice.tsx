/** A field with few values. */
import { sentenceCase } from "../words/states.ts";

interface ChoiceProps {
  readonly label: string;
  readonly value: string | undefined;
  /** Values and their names. */
  readonly choices: readonly (readonly [value: string, name: string])[];
  /** The label stands beside it, and not above it. */
  readonly isInline?: boolean;
  readonly onChange: (value: string) => void;
}

export function Choice({ label, value = "", choices, isInline = false, onChange }: ChoiceProps) {
  return (
    <label className={isInline ? "field inline" : "field"}>
      {label}
      <select value={value} onChange={({ target }) => onChange(target.value)}>
        {choices.map(([choice, name]) => (
          <option key={choice} value={choice}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The choices of a filter: each of the values, or all. */
export const orAll = (values: readonly string[]): ChoiceProps["choices"] => [
  ["", "All"],
  ...values.map((value) => [value, sentenceCase(value)] as const),
];
