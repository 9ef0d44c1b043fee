/**
 * Why an ipmitool call failed. ipmitool ends with exit code 1 (or even 0) and a line of text for everything, and says
 * "Unable to establish IPMI v2 / RMCP+ session" for a wrong password and for a dead BMC alike. With `-v` it adds the
 * reason, so the text decides where it can; where it cannot, the verdict hangs on whether the BMC is there at all.
 */
import type { DriverError, DriverErrorKind } from "../../src/drivers/driver.ts";

/** What a driver function throws; found by its name, as the contract has it. */
export class IpmiError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;

  constructor(verdict: Verdict, options?: ErrorOptions) {
    super(verdict.message, options);
    this.kind = verdict.kind;
    this.retryable = verdict.retryable;
  }
}

/** A failure, told for people. */
export interface Verdict {
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  readonly message: string;
}

/** Either known from the text, or dependent on whether the BMC answers a question that needs no login. */
export type Judgement = { readonly verdict: Verdict } | { readonly present: Verdict; readonly silent: Verdict };

/** How ipmitool ended. */
export interface FailedCall {
  /** The BMC, "address:port". */
  readonly bmc: string;
  /** What was to be done, as the end of "the BMC was asked to …". */
  readonly task: string;
  readonly username: string;
  readonly cipherSuite: number;
  readonly privilege: string;
  /** All that ipmitool printed. */
  readonly text: string;
  /** Set when it was killed for taking longer. */
  readonly killedAfterSeconds?: number;
}

/** Lines that `-v` prints in good calls as well. */
const CHATTER =
  /^(Loading IANA|Running Get |Invalid completion code received|Discovered |Get HPM\.x |No PICMG|Error Response 0x\w+ from Get PICMG|Close Session command failed)/;
/** Refusals that pass: the BMC is busy, starting, or between two states. */
const PASSING =
  /busy|timeout|out of space|initiali[sz]ation|update mode|present state|could not be provided|unspecified/i;

/** Reads ipmitool's text. Pure; the order matters: the reason of a failed login stands before its general line. */
export function judgeFailure(call: FailedCall): Judgement {
  const { bmc, task, text } = call;
  const known = (kind: DriverErrorKind, retryable: boolean, message: string): Judgement => ({
    verdict: { kind, retryable, message },
  });
  const silent: Verdict = {
    kind: "UNREACHABLE",
    retryable: true,
    message: `BMC ${bmc} does not answer; check its power, its network and the address and port in the node's settings.`,
  };

  const stuckLogin: Verdict = {
    kind: "AUTHENTICATION",
    retryable: true,
    message: `BMC ${bmc} answers, but does not complete the login of user "${call.username}"; check user name and password in the node's settings, and that the user is not locked on the BMC.`,
  };

  // Before the killed ones: ipmitool begins a login four times over, which may take longer than the call.
  if (/no response from RAKP/.test(text)) return { silent, present: stuckLogin };
  if (call.killedAfterSeconds !== undefined) {
    const message = `BMC ${bmc} answers, but did not ${task} within ${call.killedAfterSeconds} s; try again, or restart the BMC.`;
    return { silent, present: { kind: "TIMEOUT", retryable: true, message } };
  }
  if (/Address lookup for .* failed|Could not open socket/.test(text)) {
    return known(
      "UNREACHABLE",
      true,
      `BMC ${bmc} cannot be reached: its address does not resolve or has no route; check the address in the node's settings.`,
    );
  }
  if (/invalid role|unauthorized role/i.test(text)) {
    return known(
      "AUTHENTICATION",
      false,
      `BMC ${bmc} lets user "${call.username}" in, but not as ${call.privilege}; give the user that privilege on the BMC, or lower \`privilege\` in the node's settings.`,
    );
  }
  if (/RAKP 2 HMAC is invalid|unauthorized name|RAKP 4 message/i.test(text)) {
    return known(
      "AUTHENTICATION",
      false,
      `BMC ${bmc} refuses the login of user "${call.username}"; check user name and password in the node's settings, and that the user may log in over LAN.`,
    );
  }
  if (/insufficient resources for session/i.test(text)) {
    return known("REFUSED", true, `BMC ${bmc} has no free session; end other sessions on it, or try again later.`);
  }
  const session = /(?:Error in open session response message|RAKP 2 message indicates an error) : (.+)/.exec(text);
  if (session !== null || /Unsupported cipher suite/i.test(text)) {
    return known(
      "REFUSED",
      false,
      `BMC ${bmc} does not take cipher suite ${call.cipherSuite} (${session?.[1]?.trim() ?? "unsupported"}); set \`cipherSuite\` to ${call.cipherSuite === 17 ? 3 : 17} in the node's settings.`,
    );
  }
  if (/does not support IPMI v2/.test(text)) {
    return known(
      "REFUSED",
      false,
      `BMC ${bmc} does not speak IPMI 2.0, and IPMI 1.5 is not supported; update its firmware, or use another driver.`,
    );
  }
  if (/Get Auth Capabilities error(?!:)/.test(text)) return { verdict: silent };
  if (/failed: Insufficient privilege level/.test(text)) {
    return known(
      "REFUSED",
      false,
      `BMC ${bmc} does not let user "${call.username}" ${task} as ${call.privilege}; give the user more privilege on the BMC, or raise \`privilege\` in the node's settings.`,
    );
  }
  const refusal = /(?:failed: |Device not present \()([^)\n]+)/.exec(text)?.[1]?.trim();
  if (refusal !== undefined) {
    return known("REFUSED", PASSING.test(refusal), `BMC ${bmc} refused to ${task}: "${refusal}".`);
  }
  if (/Unable to establish/.test(text)) return { silent, present: stuckLogin };
  // No new session, no refusal, but the session could not even be closed: the BMC fell silent in the middle.
  if (/Close Session command failed|^Unable to (get|set) /m.test(text)) {
    return known(
      "TIMEOUT",
      true,
      `BMC ${bmc} took the login, but then did not answer when it was to ${task}; if it is always slow, raise \`replySeconds\` in the node's settings.`,
    );
  }
  const said = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !CHATTER.test(line))
    .at(-1);
  return known(
    "OTHER",
    true,
    `ipmitool could not ${task} at BMC ${bmc}: ${said === undefined ? "it gave no reason" : `"${said.slice(0, 200)}"`}.`,
  );
}
