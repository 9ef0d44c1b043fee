/** Secrets are masked as a whole, line by line, as JSON, addresses and forms hold them, and where a text was shortened in the middle of one. */
import { expect, test } from "vitest";
import { createMask } from "../../src/drivers/secret-masking.ts";
import { createRedactor } from "../../src/engine/input/secret-redactor.ts";

const KEY = "-----BEGIN KEY-----\r\nMIIEvQIB\r\nab\r\n-----END KEY-----\r\n";

test.each([
  ["a secret", "login correct-horse failed", "login *** failed"],
  ["the longer one of two", "correct-horse-battery", "***"],
  ["a key as a whole", `key ${KEY}.`, "key ***."],
  ["one line of a key", "line MIIEvQIB is odd", "line *** is odd"],
  ["no line that is too short", "absolutely", "absolutely"],
  ["half a secret at the end of a shortened text", "login correct-h…", "login ***…"],
  ["half a line of a key there", "key MIIE…", "key ***…"],
  ["one as JSON holds it", `sent ${JSON.stringify({ password: 'say "x" to\\me' })}`, `sent {"password":"***"}`],
  [
    "one as addresses hold it",
    `asked ${new URL("http://10.0.0.7/?token=" + encodeURIComponent('say "x" to\\me'))}`,
    "asked http://10.0.0.7/?token=***",
  ],
  ["one as forms hold it", `sent ${new URLSearchParams({ token: 'say "x" to\\me' }).toString()}`, "sent token=***"],
  ["half of one as addresses hold it", "asked http://10.0.0.7/?token=say%20%22…", "asked http://10.0.0.7/?token=***…"],
  ["nothing at the end of a text that was not shortened", "correct", "correct"],
])("%s", (_what, text, shown) => {
  const secrets = ["correct-horse", "correct-horse-battery", KEY, "x", 'say "x" to\\me'];
  expect(createMask(secrets).all(text)).toBe(shown);
  expect(createRedactor(secrets).text(text)).toBe(shown);
});
