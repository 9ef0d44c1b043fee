/** Results of checks: a line for each with the seconds since the start, and the counts at the end. */

export interface Report {
  /** Prints a line that is not a check. */
  note(text: string): void;
  check(what: string, isTrue: boolean, detail?: string): void;
  /** Runs a scenario. What it throws is a failed check. Prints the seconds that it took. */
  scenario(name: string, run: () => Promise<void>): Promise<void>;
  counts(): { readonly passed: number; readonly failed: number };
  /** Seconds of each scenario. */
  summary(): string;
}

/** Below ten seconds, so that the output never stands still for longer. */
const REPEAT_MS = 8_000;

/** Prints a line with the seconds every 8 seconds, until it is disposed of. */
export function keepReporting(what: string): Disposable {
  const began = performance.now();
  const print = () => console.log(`… ${what}: ${((performance.now() - began) / 1000).toFixed(0)} s`);
  const timer = setInterval(print, REPEAT_MS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

export function createReport(): Report {
  const beginning = performance.now();
  const elapsed = (since: number) => (performance.now() - since) / 1000;
  const times: { readonly name: string; readonly seconds: number; readonly failed: number }[] = [];
  let passed = 0;
  let failed = 0;
  const line = (mark: string, text: string) =>
    console.log(`${mark} ${elapsed(beginning).toFixed(1).padStart(7)} s  ${text}`);
  const check: Report["check"] = (what, isTrue, detail = "") => {
    if (isTrue) passed += 1;
    else failed += 1;
    line(isTrue ? "ok  " : "FAIL", detail === "" ? what : `${what}: ${detail}`);
  };
  return {
    note: (text) => line("    ", text),
    check,
    async scenario(name, run) {
      const [began, failedBefore] = [performance.now(), failed];
      console.log(`\n---- ${name}`);
      try {
        await run();
      } catch (error) {
        check(error instanceof Error ? error.message : String(error), false);
      }
      const seconds = elapsed(began);
      times.push({ name, seconds, failed: failed - failedBefore });
      line("    ", `${name} took ${seconds.toFixed(1)} s`);
    },
    counts: () => ({ passed, failed }),
    summary: () =>
      times
        .map(
          ({ name, seconds, failed: some }) =>
            `${seconds.toFixed(1).padStart(7)} s  ${some === 0 ? "ok  " : "FAIL"}  ${name}`,
        )
        .join("\n"),
  };
}
