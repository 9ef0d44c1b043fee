/** A proof that is run by hand: a line a check, and at its end `N passed, N failed`. Knows no test runner. */

let passed = 0;
let failed = 0;

export function check(title: string, ok: boolean, detail = ""): void {
  if (ok) passed += 1;
  else failed += 1;
  console.log(`${ok ? "ok  " : "FAIL"} ${title}${detail && ` (${detail})`}`);
}

/** Makes the proof, and ends the process: with 0 where every check has passed. */
export async function prove(proof: () => Promise<void>): Promise<never> {
  try {
    await proof();
  } catch (error) {
    check(error instanceof Error ? error.message : String(error), false);
  }
  console.log(`\n${passed} passed, ${failed} failed`);
  // Whatever still runs of a proof that failed ends with it.
  process.exit(failed === 0 ? 0 : 1);
}
