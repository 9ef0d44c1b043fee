/** The error that functions of the driver `fake` throw. */
import type { DriverError, DriverErrorKind } from "../../src/drivers/driver.ts";

export class FakeError extends Error implements DriverError {
  override readonly name = "DriverError";
  readonly kind: DriverErrorKind;
  readonly retryable: boolean;
  constructor(message: string, kind: DriverErrorKind, retryable: boolean) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
  }
}
