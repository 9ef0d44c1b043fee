/** A field of a filter for any text, which is used when a person has stopped typing. */
import { useEffect, useState } from "react";

interface TextFilterProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (value: string | null) => void;
}

const TYPING_MS = 300;

export function TextFilter({ label, value = "", onChange }: TextFilterProps) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => onChange(typed === "" ? null : typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label className="field">
      {label}
      <input type="search" value={typed} maxLength={200} onChange={(event) => setTyped(event.target.value)} />
    </label>
  );
}
