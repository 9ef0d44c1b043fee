/** The error of this driver, and the classification of failed requests. */
import { errors } from "undici";
import type { DriverError, DriverErrorKind } from "../../src/drivers/driver.ts";

/** Thrown by functions of this driver. The engine recognizes it by its name, as the contract requires. */
export class RedfishError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  readonly withoutEffect: boolean;
  /** Of a change. `NONE`: the BMC has not made it. `UNKNOWN`: it may be making it. Absent: the request was a read. */
  readonly effect: "NONE" | "UNKNOWN" | undefined;
  /** HTTP status, if the BMC has answered. */
  readonly status: number | undefined;
  /** The BMC does not serve now, and this call has requested nothing that must not be requested twice. */
  readonly away: boolean;

  constructor(failure: RedfishFailure, options?: { readonly cause?: unknown }) {
    super(failure.message, options);
    this.kind = failure.kind;
    this.retryable = failure.retryable ?? false;
    this.withoutEffect = failure.withoutEffect ?? false;
    this.effect = failure.effect;
    this.status = failure.status;
    this.away = failure.away ?? false;
  }
}

interface RedfishFailure {
  readonly kind: DriverErrorKind;
  /** For operators: names the BMC and the remedy. */
  readonly message: string;
  readonly retryable?: boolean;
  /** For a TIMEOUT: true if no request of the call can have changed the machine. */
  readonly withoutEffect?: boolean;
  readonly effect?: "NONE" | "UNKNOWN";
  readonly status?: number;
  readonly away?: boolean;
}

/** For `catch`: nothing in place of what the BMC did not answer; other errors are thrown. */
export function onlyFailed(error: unknown): undefined {
  if (!(error instanceof RedfishError)) throw error;
}

export function onlyTimeout(error: unknown): undefined {
  if (!(error instanceof RedfishError) || error.kind !== "TIMEOUT") throw error;
}

/** An ability that this machine does not offer. `what`: the end of a sentence that begins with the BMC. */
export function unsupported(bmc: string, what: string): RedfishError {
  return new RedfishError({ kind: "UNSUPPORTED", message: `BMC ${bmc} ${what}` });
}

export interface FailedRequest {
  readonly bmc: string;
  /** The end of "the BMC was asked to …". */
  readonly task: string;
  readonly withoutEffect: boolean;
  /** The call has requested something before that must not be requested twice. */
  readonly hasActed: boolean;
  /** Absent: it was a read. `isPartial`: its body was not sent to its end. `isAction`: it must not be made twice. */
  readonly change?: { readonly isPartial: boolean; readonly isAction: boolean };
}

/** Whether a connection ended before the answer. */
export function hasBroken(error: unknown): boolean {
  return error instanceof RedfishError && RESET_CODES.has(codeOf(error.cause));
}

/** The error for a request that got no complete answer. */
export function connectionError(request: FailedRequest, error: unknown): RedfishError {
  const failure = classify(request, error);
  const isUnsent = failure.kind === "UNREACHABLE" || CERTIFICATE_CODES.test(codeOf(error));
  const effect = request.change && (isUnsent || request.change.isPartial ? "NONE" : "UNKNOWN");
  const isRepeatable = !request.hasActed && (effect !== "UNKNOWN" || request.change?.isAction === false);
  const away = isRepeatable && (AWAY_CODES.has(codeOf(error)) || RESET_CODES.has(codeOf(error)));
  return new RedfishError({ ...failure, ...(effect && { effect }), away }, { cause: error });
}

function classify({ bmc, task, withoutEffect }: FailedRequest, error: unknown): RedfishFailure {
  const code = codeOf(error);
  if (error instanceof errors.ResponseExceededMaxSizeError || code === "ERR_BUFFER_TOO_LARGE")
    return {
      kind: "OTHER",
      message: `BMC ${bmc} was asked to ${task}, and its answer has more than 16 MiB; restart the BMC.`,
    };
  if (UNREACHABLE_CODES.has(code))
    return {
      kind: "UNREACHABLE",
      retryable: true,
      message: `BMC ${bmc} cannot be reached (${code}); check the address, the BMC's power and its network.`,
    };
  if (TIMEOUT_CODES.has(code))
    return {
      kind: "TIMEOUT",
      retryable: true,
      withoutEffect,
      message: `BMC ${bmc} accepted a connection, but did not ${task} in time; try again, or restart the BMC.`,
    };
  if (CERTIFICATE_CODES.test(code)) {
    const reason = `${code} ${error instanceof Error ? error.message : ""}`.toUpperCase().replaceAll(" ", "_");
    const [, what] = TLS_FLAWS.find(([pattern]) => pattern.test(reason)) ?? [];
    return { kind: "OTHER", message: `BMC ${bmc} ${what ?? NOT_TRUSTED} (${code}).` };
  }
  return {
    // A call that has asked for no change has no effect, and another driver may answer in its place.
    kind: withoutEffect && RESET_CODES.has(code) ? "UNREACHABLE" : "OTHER",
    retryable: true,
    message: `BMC ${bmc} was asked to ${task}, and the connection broke (${code}); try again, or restart the BMC.`,
  };
}

/** As of a BMC that restarts. */
const AWAY_CODES: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EHOSTDOWN",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/** No connection was established, TLS included, so the BMC has not received the request. */
const UNREACHABLE_CODES: ReadonlySet<string> = new Set([...AWAY_CODES, "ENOTFOUND", "EAI_AGAIN"]);

/** A connection ended before the answer. */
const RESET_CODES: ReadonlySet<string> = new Set(["ECONNRESET", "ECONNABORTED", "EPIPE", "UND_ERR_SOCKET"]);

const CERTIFICATE_CODES = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO|FINGERPRINT/;

/** Why TLS ends, and what to do. */
const TLS_FLAWS: readonly (readonly [RegExp, string])[] = [
  [/WRONG_VERSION_NUMBER|PACKET_LENGTH|HTTP_REQUEST/, "does not answer with TLS encryption; check port and scheme"],
  [
    /PROTOCOL|HANDSHAKE|CIPHER|TOO_SMALL|TOO_WEAK|RENEGOTIATION|SIGALG/,
    "offers only an encryption that is not accepted, such as TLS 1.1 or a short key; update its firmware, and let it create a new certificate",
  ],
  [/EXPIRED|NOT_YET/, "has a certificate that is not valid now; renew it, check its clock, or set fingerprint"],
  [/ALTNAME/, "has a certificate for another name; use that name as the address, or set fingerprint"],
];
const NOT_TRUSTED = "has a certificate that is not trusted; set certificateAuthority or fingerprint";

const TIMEOUT_CODES: ReadonlySet<string> = new Set(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT", "TIMEOUT"]);

function codeOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return "unknown";
  if ("code" in error && typeof error.code === "string") return error.code;
  return "name" in error && error.name === "TimeoutError" ? "TIMEOUT" : "unknown";
}
