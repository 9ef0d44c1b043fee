/**
 * The journal of the driver `fake`: with FAKE_DRIVER_JOURNAL in the environment, every call that matters to a test
 * appends a line of JSON to that file.
 */
import { appendFileSync } from "node:fs";

/** Appends an entry, with the time, if there is a journal. */
export type Journal = (entry: Readonly<Record<string, unknown>>) => void;

export function openJournal(): Journal {
  const file = process.env["FAKE_DRIVER_JOURNAL"];
  return (entry) => {
    if (file) appendFileSync(file, `${JSON.stringify({ at: Date.now(), ...entry })}\n`);
  };
}
