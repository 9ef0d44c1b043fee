/** Errors of the database by code: a failed statement, or a lost connection that is worth a retry. */
import { describe, expect, test } from "vitest";
import { isConnectionLoss, isDatabaseUnavailable, sqlState } from "../../src/store/postgres/connection-errors.ts";

const coded = (code: string, cause?: unknown) => Object.assign(new Error(code, { cause }), { code });

describe("connection loss by error code", () => {
  test.each([
    "CONNECTION_CLOSED",
    "CONNECT_TIMEOUT",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "EHOSTUNREACH",
    "ENOTFOUND",
    "EAI_AGAIN",
    "57P01",
    "57P03",
    "25P04",
    "53300",
    "08006",
    "08P01",
    "25006",
  ])("connection error %s is a loss", (code) => {
    expect(isConnectionLoss(coded(code))).toBe(true);
    expect(isConnectionLoss(new Error("the query failed", { cause: coded(code) }))).toBe(true);
  });

  test("connection error of several addresses is a loss if each one is", () => {
    expect(
      isConnectionLoss(
        Object.assign(new AggregateError([coded("EHOSTUNREACH"), coded("ECONNREFUSED")]), { code: "SOMETHING" }),
      ),
    ).toBe(true);
  });
});

test.each(["28000", "28P01", "3D000", "53100", "53200", "58030"])(
  "database error %s waits for an operator, without a lost connection",
  (code) => {
    expect([isConnectionLoss(coded(code)), isDatabaseUnavailable(coded(code))]).toEqual([false, true]);
  },
);

test.each(["23505", "40001", "42P01", "57014", "55P03", "ABORT_ERR"])(
  "database error %s is not a connection loss",
  (code) => {
    expect([isConnectionLoss(coded(code)), isDatabaseUnavailable(coded(code))]).toEqual([false, false]);
  },
);

test("database error code is found in the causes of an error", () => {
  expect(sqlState(new Error("the query failed", { cause: coded("23505") }))).toBe("23505");
  expect(sqlState(coded("ECONNREFUSED"))).toBeUndefined();
  expect(sqlState("23505")).toBeUndefined();
});
