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
  /** Checks that could not check everything, because the driver or its machine does not support it. */
  readonly unsupported: number;
  readonly failed: number;
  readonly checks: readonly CheckResult[];
}

export interface CheckResult {
  /** A sentence about the driver, without its subject. */
  readonly title: string;
  /** Null if the check has passed. */
  readonly problem: string | null;
  /** The parts that could not be checked, with the reasons. */
  readonly unsupported: readonly string[];
  readonly milliseconds: number;
}

export function printCertificate({
  driver,
  version,
  contract,
  node,
  live,
  passed,
  unsupported,
  failed,
  checks,
}: Certificate): string {
  const lines = checks.map((check) => {
    if (check.problem !== null) return `FAIL  ${check.title}${below([check.problem])}`;
    const word = check.unsupported.length > 0 ? "UNSUPPORTED  " : "ok    ";
    return `${word}${check.title} (${check.milliseconds} ms)${below(check.unsupported)}`;
  });
  return [
    `Driver ${driver} ${version}, contract ${contract}, on Node ${node.replace(/^v/, "")}, ${live ? "with" : "without"} a machine`,
    "",
    ...lines,
    "",
    `${passed} passed, ${unsupported} unsupported, ${failed} failed`,
    "",
  ].join("\n");
}

function below(texts: readonly string[]): string {
  return texts.map((text) => `\n      ${text.replaceAll("\n", "\n      ")}`).join("");
}
