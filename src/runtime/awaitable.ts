/** Values that exist at once or later. Thousands of streams use those that exist without a promise for each step. */

export type Awaitable<Value> = Value | Promise<Value>;

/** Calls `use` with the value: at once if it exists, otherwise when it does. */
export function whenReady<Value, Result>(
  value: Awaitable<Value>,
  use: (value: Value) => Awaitable<Result>,
): Awaitable<Result> {
  return value instanceof Promise ? value.then(use) : use(value);
}
