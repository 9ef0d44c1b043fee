/** Which settings of a server suit, which a session sets, and which stop a start behind a pooler. */
import { expect, test } from "vitest";
import { ownSettings, unsuitable } from "../../src/store/postgres/session-settings.ts";

test("settings behind a pooler must be those that the code relies on, and each other one is named [R-781]", () => {
  expect(
    unsuitable({
      default_transaction_isolation: "repeatable read",
      default_transaction_read_only: "on",
      statement_timeout: "5000",
      extra_float_digits: "0",
      synchronous_commit: "off",
      TimeZone: "Asia/Kathmandu",
      DateStyle: "ISO, MDY",
      work_mem: "64",
    }),
  ).toEqual({
    default_transaction_isolation: "read committed",
    default_transaction_read_only: "off",
    statement_timeout: "0",
    extra_float_digits: "1",
    synchronous_commit: "on",
    TimeZone: "UTC",
  });
});

test("settings behind a pooler may be equal ones of other names, and timeouts that no statement reaches [R-781]", () => {
  expect(
    unsuitable({
      TimeZone: "Etc/UTC",
      idle_in_transaction_session_timeout: "86400000",
      lock_timeout: "0",
      synchronous_commit: "remote_apply",
    }),
  ).toEqual({});
});

test("a session sets what the server knows, and keeps for which copies a commit waits [R-781]", () => {
  expect(ownSettings({ lock_timeout: "5", synchronous_commit: "local" })).toEqual({ lock_timeout: "0" });
  expect(ownSettings({ synchronous_commit: "off" })).toEqual({ synchronous_commit: "on" });
});
