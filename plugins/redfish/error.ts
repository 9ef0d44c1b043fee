/** The error of this driver, and the classification of failed requests. */
import { errors } from "undici";
import type { DriverError, DriverErrorKind } from "../../src/drivers/driver.ts";

/** Thrown by functions of this driver. The engine recognizes it by its name, as the contract requires. */
export class RedfishError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  /** HTTP status, if the BMC has answered. */
  readonly status: number | undefined;

  constructor({ kind, message, retryable = false, status }: RedfishFailure, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.kind = kind;
    this.retryable = retryable;
    this.status = status;
  }
}

interface RedfishFailure {
  readonly kind: DriverErrorKind;
  /** For operators: names the BMC and the remedy. */
  readonly message: string;
  readonly retryable?: boolean;
  readonly status?: number;
}

/** An ability that this machine does not offer. */
export function unsupported(bmc: string, what: string): RedfishError {
  return new RedfishError({ kind: "UNSUPPORTED", message: `BMC ${bmc} ${what}` });
}

/** A request that got no complete answer. `task`: the end of "the BMC was asked to …". */
export function connectionError(bmc: string, task: string, error: unknown): RedfishError {
  return new RedfishError(classify(bmc, task, error), { cause: error });
}

function classify(bmc: string, task: string, error: unknown): RedfishFailure {
  const code = codeOf(error);
  if (error instanceof errors.ResponseExceededMaxSizeError)
    return { kind: "OTHER", message: `BMC ${bmc} was asked to ${task}, and its answer is too large; restart the BMC.` };
  if (error instanceof errors.ConnectTimeoutError || UNREACHABLE_CODES.has(code))
    return {
      kind: "UNREACHABLE",
      retryable: true,
      message: `BMC ${bmc} cannot be reached (${code}); check the address, the BMC's power and its network.`,
    };
  if (error instanceof errors.HeadersTimeoutError || error instanceof errors.BodyTimeoutError || code === "TIMEOUT")
    return {
      kind: "TIMEOUT",
      retryable: true,
      message: `BMC ${bmc} accepted a connection, but did not ${task} in time; try again, or restart the BMC.`,
    };
  if (/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO|FINGERPRINT/.test(code))
    return {
      kind: "OTHER",
      message: `BMC ${bmc} has a certificate or an encryption that is not accepted (${code}); set certificateAuthority or fingerprint in the node's settings.`,
    };
  return {
    kind: "OTHER",
    retryable: true,
    message: `BMC ${bmc} was asked to ${task}, and the connection broke (${code}); try again, or restart the BMC.`,
  };
}

const UNREACHABLE_CODES = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EHOSTDOWN",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
]);

function codeOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return "unknown";
  if ("code" in error && typeof error.code === "string") return error.code;
  return "name" in error && error.name === "TimeoutError" ? "TIMEOUT" : "unknown";
}
