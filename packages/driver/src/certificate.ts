/** The outcome of the conformance suite for one driver. */
export interface Certificate {
  readonly driver: string;
  readonly version: string;
  /** Version of the driver contract. */
  readonly contract: number;
  /** Version of Node that ran the checks. */
  readonly node: string;
  /** Whether a machine was switched on and off. */
  readonly live: boolean;
  readonly passed: number;
  readonly failed: number;
  readonly checks: readonly CheckResult[];
}

export interface CheckResult {
  /** A sentence about the driver, without its subject. */
  readonly title: string;
  /** Null if the check has passed. */
  readonly problem: string | null;
  readonly milliseconds: number;
}

export function printCertificate({
  driver,
  version,
  contract,
  node,
  live,
  passed,
  failed,
  checks,
}: Certificate): string {
  const lines = checks.map(({ title, problem, milliseconds }) =>
    problem === null
      ? `ok    ${title} (${milliseconds} ms)`
      : `FAIL  ${title}\n      ${problem.replaceAll("\n", "\n      ")}`,
  );
  return [
    `Driver ${driver} ${version}, contract ${contract}, on Node ${node.replace(/^v/, "")}, ${live ? "with" : "without"} a machine`,
    "",
    ...lines,
    "",
    `${passed} passed, ${failed} failed`,
    "",
  ].join("\n");
}
