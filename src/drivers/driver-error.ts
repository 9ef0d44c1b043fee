/** Errors of drivers that the service itself throws. */
import type { DriverErrorKind } from "./driver.ts";

/** An error of kind UNSUPPORTED, or of another one, which is not retried. */
export function unsupported(message: string, kind: DriverErrorKind = "UNSUPPORTED"): Error {
  return Object.assign(new Error(message), { name: "DriverError", kind, retryable: false });
}
