/** The modes of an abort, each with what it would do to these nodes. */
import { useEffect, useState } from "react";
import type { Variables } from "../data/request.ts";
import { ABORT_MODES } from "../words/verbs.ts";
import { foresee } from "./carry-out.ts";
import type { Proposal } from "./outlook.ts";

interface AbortModesProps {
  readonly proposal: Proposal;
  /** The terms of the request. */
  readonly terms: Variables;
  /** With another one the forecasts are read again. */
  readonly version: string;
  readonly value: string;
  readonly onChange: (mode: string) => void;
}

export function AbortModes({ proposal, terms, version, value, onChange }: AbortModesProps) {
  const [sentences, setSentences] = useState<Readonly<Record<string, string>>>({});
  const others = JSON.stringify({ ...terms, mode: undefined });
  useEffect(() => {
    const end = new AbortController();
    const read = async () => {
      // One after the other: each of them goes through all nodes.
      for (const mode of Object.keys(ABORT_MODES)) {
        const outlook = await foresee(proposal, { ...(JSON.parse(others) as Variables), mode }, end.signal);
        if (end.signal.aborted) return;
        const refusals = outlook.errors.map(({ message }) => message);
        setSentences((all) => ({ ...all, [mode]: outlook.sentence || refusals.join(" ") }));
      }
    };
    // The forecast of the chosen mode reports what fails.
    read().catch(() => {});
    return () => end.abort();
  }, [others, version]);
  return (
    <fieldset className="modes">
      <legend>How far to go</legend>
      {Object.entries(ABORT_MODES).map(([mode, { name, meaning }]) => (
        <label key={mode} className="check">
          <input type="radio" name="mode" checked={(value || "NOW") === mode} onChange={() => onChange(mode)} />
          <span>
            <b>{name}</b>: {meaning}
            <small className="line quiet">{sentences[mode] ?? "Asking what it would do…"}</small>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
