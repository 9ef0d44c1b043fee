/** Checks of a program without a test runner: prints a line for each, and ends with `N passed, N failed`. */

let passed = 0;
let failed = 0;

export function check(title: string, ok: boolean, detail = ""): void {
  if (ok) passed += 1;
  else failed += 1;
  console.log(`${ok ? "ok  " : "FAIL"} ${title}${detail && ` (${detail})`}`);
}

/** Runs the checks, and exits: with 0 if all have passed. */
export async function prove(proof: () => Promise<void>): Promise<never> {
  try {
    await proof();
  } catch (error) {
    check(error instanceof Error ? error.message : String(error), false);
  }
  console.log(`\n${passed} passed, ${failed} failed`);
  // Ends what still runs after a failure.
  process.exit(failed === 0 ? 0 : 1);
}
