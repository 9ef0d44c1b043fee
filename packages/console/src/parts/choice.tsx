/** A field of a filter with few values; an empty one chooses all. */
import { sentenceCase } from "../words/states.ts";

interface ChoiceProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly choices: readonly string[];
  readonly onChange: (value: string | null) => void;
}

export function Choice({ label, value = "", choices, onChange }: ChoiceProps) {
  return (
    <label className="field">
      {label}
      <select value={value} onChange={(event) => onChange(event.target.value || null)}>
        <option value="">All</option>
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {sentenceCase(choice)}
          </option>
        ))}
      </select>
    </label>
  );
}
