/** Checks of a program without a test runner: prints a line for each, and ends with `N passed, N failed`. */

let passed = 0;
let failed = 0;

/** `failure`: what explains a failure only, such as all that a program has printed. */
export function check(title: string, ok: boolean, detail = "", failure = ""): void {
  if (ok) passed += 1;
  else failed += 1;
  console.log(
    `${ok ? "ok  " : "FAIL"} ${title}${detail && ` (${detail})`}${ok || failure === "" ? "" : `: ${failure}`}`,
  );
}

/** Runs some of the checks. An error counts as one that failed, and the next part begins. */
export async function part(title: string, proof: () => Promise<void>): Promise<void> {
  console.log(`\n${title}`);
  await attempt(proof);
}

/** Runs the checks, and exits: with 0 if all have passed. */
export async function prove(proof: () => Promise<void>): Promise<never> {
  await attempt(proof);
  console.log(`\n${passed} passed, ${failed} failed`);
  // Ends what still runs after a failure.
  process.exit(failed === 0 ? 0 : 1);
}

async function attempt(proof: () => Promise<void>): Promise<void> {
  try {
    await proof();
  } catch (error) {
    check(error instanceof Error ? error.message : String(error), false);
  }
}
