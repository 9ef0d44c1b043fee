/**
 * Secrets are masked whole, line by line, in the spelling of JSON, URLs, forms, Base64 and hexadecimal, and at the end
 * of a truncated text.
 */
import { expect, test } from "vitest";
import { createMask } from "../../src/drivers/secret-masking.ts";
import { createRedactor } from "../../src/engine/input/secret-redactor.ts";

const KEY = "-----BEGIN KEY-----\r\nMIIEvQIB\r\nab\r\n-----END KEY-----\r\n";

const hex = (separator: string) => [...Buffer.from("correct-horse")].map((byte) => byte.toString(16)).join(separator);
const each = (spell: (byte: number) => string) => [...Buffer.from("correct-horse")].map(spell).join("");
const base64 = (text: string) => Buffer.from(text).toString("base64");

test.each([
  ["a secret", "login correct-horse failed", "login *** failed"],
  ["the longer of two overlapping secrets", "correct-horse-battery", "***"],
  ["a key as a whole", `key ${KEY}.`, "key ***."],
  ["one line of a key", "line MIIEvQIB is odd", "line *** is odd"],
  ["a short line of a key stays visible", "absolutely", "absolutely"],
  ["half a secret at the end of a truncated text", "login correct-h…", "login ***…"],
  ["half a line of a key at the end of a truncated text", "key MIIE…", "key ***…"],
  ["a secret in JSON", `sent ${JSON.stringify({ password: 'say "x" to\\me' })}`, `sent {"password":"***"}`],
  [
    "a secret in a URL",
    `asked ${new URL("http://10.0.0.7/?token=" + encodeURIComponent('say "x" to\\me'))}`,
    "asked http://10.0.0.7/?token=***",
  ],
  ["a secret in a form", `sent ${new URLSearchParams({ token: 'say "x" to\\me' }).toString()}`, "sent token=***"],
  ["a secret in a URL with lower-case digits", "asked token=say%20%22x%22%20to%5cme.", "asked token=***."],
  ["a secret of which each byte is percent-encoded", `asked ${each((byte) => `%${byte.toString(16)}`)}.`, "asked ***."],
  ["a secret that is percent-encoded twice", "asked token=say%2520%2522x%2522%2520to%255Cme", "asked token=***"],
  ["a secret in HTML", "<p>say &quot;x&quot; to\\me</p>", "<p>***</p>"],
  ["a secret in numeric references of HTML", `<p>${each((byte) => `&#${byte};`)}</p>`, "<p>***</p>"],
  ["a secret in hexadecimal references of HTML", `<p>${each((byte) => `&#x${byte.toString(16)};`)}</p>`, "<p>***</p>"],
  ["a secret in Unicode escapes", `{"p":"${each((byte) => `\\u00${byte.toString(16)}`)}"}`, '{"p":"***"}'],
  ["a secret in escapes of source code", `b'${each((byte) => `\\x${byte.toString(16)}`)}'`, "b'***'"],
  ["a secret in JSON in JSON", JSON.stringify(JSON.stringify('say "x" to\\me')), '"\\"***\\""'],
  ["a secret with letters outside ASCII", "%C3%A4%C3%B6%C3%BC%C3%9F &#xe4;&ouml;öüß", "*** &#xe4;&ouml;öüß"],
  ["a secret in URL-safe base64", `key ${Buffer.from("?>?>?>?>").toString("base64url")}`, "key ***"],
  ["a secret in base64 that is percent-encoded", `key ${encodeURIComponent(base64("?>?>?>?>"))}`, "key ***"],
  ["half a secret in a URL that is cut within an escape", "asked token=say%20%2…", "asked token=***…"],
  ["escapes of another text stay as they are", "100%25 &amp; \\u0041 caf\\u00e9", "100%25 &amp; \\u0041 caf\\u00e9"],
  ["half a secret in a truncated URL", "asked http://10.0.0.7/?token=say%20%22…", "asked http://10.0.0.7/?token=***…"],
  ["a secret in base64", `key ${base64("correct-horse")}`, "key ***"],
  ["a secret in base64 behind a user name of one byte", `Basic ${base64("a:correct-horse")}`, "Basic YTp***"],
  ["a secret in base64 behind a user name of two bytes", `Basic ${base64("ab:correct-horse")}`, "Basic YWI6***"],
  ["a secret in base64 behind a user name of three bytes", `Basic ${base64("abc:correct-horse")}`, "Basic YWJjOm***U="],
  ["a secret in hexadecimal", `sent ${Buffer.from("correct-horse").toString("hex")}`, "sent ***"],
  ["a secret in upper-case hexadecimal", `sent ${hex("").toUpperCase()}.`, "sent ***."],
  ["a secret in hexadecimal with colons, as in a certificate", `key ${hex(":").toUpperCase()}.`, "key ***."],
  ["a secret in hexadecimal with spaces", `RAKP ${hex(" ")} end`, "RAKP *** end"],
  ["a secret in a dump with groups of bytes", `sent ${hex("").replaceAll(/(.{4})/g, "$1  ")}|`, "sent ***|"],
  ["a secret in hexadecimal over two lines", `key ${hex(":\n    ")}.`, "key ***."],
  ["a secret in an array of source code", `{ 0x${hex(", 0x")} }`, "{ 0x*** }"],
  ["two secrets in hexadecimal", `${hex(":")}; ${hex("")}; ${hex("")}`, "***; ***; ***"],
  ["half a secret in hexadecimal in a truncated text", `key ${hex(":").slice(0, 20)}…`, "key ***…"],
  ["hexadecimal of another text stays visible", "fd00:7::1 63:6f:72:72 0xdeadbeef", "fd00:7::1 63:6f:72:72 0xdeadbeef"],
  ["the beginning of a secret in a text that is not truncated stays visible", "correct", "correct"],
])("mask: %s [R-310]", (_what, text, shown) => {
  const secrets = ["correct-horse", "correct-horse-battery", KEY, "x", "äöüß", "?>?>?>?>", 'say "x" to\\me'];
  expect(createMask(secrets).all(text)).toBe(shown);
  expect(createRedactor(secrets).text(text)).toBe(shown);
});
