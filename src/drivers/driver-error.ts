/** Errors of drivers that the service itself throws. */
import type { DriverErrorKind } from "./driver.ts";

/** An error of kind UNSUPPORTED. */
export function unsupported(message: string): Error {
  const kind: DriverErrorKind = "UNSUPPORTED";
  return Object.assign(new Error(message), { name: "DriverError", kind, retryable: false });
}
