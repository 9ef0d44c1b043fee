/** The files of a certificate: what the start refuses, and what it only warns of. */
import { createPrivateKey } from "node:crypto";
import { chmodSync, rmSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { ConfigError, tlsFilesOf } from "../../src/config/values.ts";
import { readCertificate } from "../../src/http/port/certificate.ts";
import { aCertificate, tlsFiles } from "../support/tls-files.ts";
import type { WrittenFiles } from "../support/tls-files.ts";

const GOOD = aCertificate();
const OTHER = aCertificate({ name: "other.example" });
const ROOT = aCertificate({ name: "Root" });
const INTERMEDIATE = aCertificate({ name: "Intermediate", issuer: ROOT });
const ISSUED = aCertificate({ issuer: INTERMEDIATE });

const owned = new DisposableStack();
afterAll(() => owned.dispose());

async function refusalOf(files: WrittenFiles): Promise<string> {
  const error: unknown = await readCertificate(files).then(
    () => null,
    (failure: unknown) => failure,
  );
  expect(error).toBeInstanceOf(ConfigError);
  return (error as ConfigError).message;
}

const REFUSED: readonly [what: string, change: (files: WrittenFiles) => void, says: RegExp][] = [
  ["no certificate file", ({ cert }) => rmSync(cert), /cert\.pem of OSTLER_TLS_CERT cannot be read: .*Check its path/],
  ["no key file", ({ key }) => rmSync(key), /key\.pem of OSTLER_TLS_KEY cannot be read: .*Check its path/],
  [
    "an encrypted key",
    (files) =>
      files.write({
        key: createPrivateKey(GOOD.key)
          .export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "secret" })
          .toString(),
      }),
    /key\.pem of OSTLER_TLS_KEY has an encrypted key, .*Decrypt it with `openssl pkey/,
  ],
  [
    "an encrypted key of the old format",
    (files) =>
      files.write({
        key: createPrivateKey(GOOD.key)
          .export({ type: "sec1", format: "pem", cipher: "aes-256-cbc", passphrase: "secret" })
          .toString(),
      }),
    /key\.pem of OSTLER_TLS_KEY has an encrypted key/,
  ],
  [
    "an expired certificate",
    (files) => {
      const { certificate, key } = aCertificate({ notBefore: new Date(0), validDays: -1 });
      files.write({ cert: certificate, key });
    },
    /cert\.pem of OSTLER_TLS_CERT has a certificate that expired at 20\S+Z\. Renew it\./,
  ],
  [
    "a certificate that is not valid yet",
    (files) => {
      const { certificate, key } = aCertificate({ notBefore: new Date(Date.now() + 3_600_000) });
      files.write({ cert: certificate, key });
    },
    /cert\.pem of OSTLER_TLS_CERT has a certificate that is not valid before 20\S+Z\. Check the clock/,
  ],
  [
    "a key that everyone can read",
    ({ key }) => chmodSync(key, 0o644),
    /key\.pem of OSTLER_TLS_KEY can be read by every user of this host\. Run chmod o= \S+key\.pem\./,
  ],
  [
    "swapped files",
    (files) => {
      files.write({ cert: GOOD.key, key: GOOD.certificate });
      chmodSync(files.key, 0o644);
    },
    /^OSTLER_TLS_CERT and OSTLER_TLS_KEY are swapped: .*Exchange the two\./,
  ],
  [
    "the key of another certificate",
    (files) => files.write({ key: OTHER.key }),
    /OSTLER_TLS_KEY has the key of another/,
  ],
  [
    "the intermediate first",
    (files) => files.write({ cert: INTERMEDIATE.certificate + ISSUED.certificate, key: ISSUED.key }),
    /OSTLER_TLS_CERT begins with another certificate than that of the key, which is number 2\. Put it first\./,
  ],
  [
    "a certificate without PEM",
    (files) => files.write({ cert: "\u0030\u0082 binary" }),
    /OSTLER_TLS_CERT has no certificate in PEM format, .*openssl x509 -inform der/,
  ],
  [
    "a key without PEM",
    (files) => files.write({ key: "\u0030\u0082 binary" }),
    /OSTLER_TLS_KEY has no private key in PEM format, .*openssl pkey -inform der/,
  ],
  [
    "an empty certificate file",
    (files) => files.write({ cert: "" }),
    /OSTLER_TLS_CERT has no certificate in PEM format/,
  ],
  [
    "a half-written certificate",
    (files) => files.write({ cert: GOOD.certificate.slice(0, 300) }),
    /OSTLER_TLS_CERT is incomplete: a part has no end\. Write it again\./,
  ],
  [
    "a garbled certificate",
    (files) => files.write({ cert: GOOD.certificate.replace(/\nMII.{8}/, "\nAAAAAAAAAAA") }),
    /OSTLER_TLS_CERT has a certificate that cannot be read: .*Write it again\./,
  ],
];

describe("certificate at the start", () => {
  test.each(REFUSED)(
    "certificate at the start with %s is refused with variable, file and remedy [R-893]",
    async (...[, change, says]) => {
      const files = owned.use(tlsFiles(GOOD));
      change(files);
      const refusal = await refusalOf(files);
      expect(refusal).toMatch(says);
      expect(refusal).not.toContain("\n");
      expect(refusal).not.toContain("BEGIN PRIVATE KEY-----\n");
    },
  );

  test.each([
    ["OSTLER_TLS_CERT", "/etc/cert.pem", "", "OSTLER_TLS_KEY is not set"],
    ["OSTLER_TLS_KEY", "", "/etc/key.pem", "OSTLER_TLS_CERT is not set"],
  ])("certificate at the start with %s alone is refused [R-893]", (name, cert, key, says) => {
    expect(() => tlsFilesOf(cert, key)).toThrow(`${name} is ${cert || key}, but ${says}. Set both`);
  });
});

describe("intermediate certificate", () => {
  test.each([
    ["is missing", ISSUED.certificate, /lacks a valid certificate of CN=Intermediate, .*Append the intermediate/],
    ["is of another chain", ISSUED.certificate + OTHER.certificate, /lacks a valid certificate of CN=Intermediate/],
    [
      "is expired",
      ISSUED.certificate +
        aCertificate({ name: "Intermediate", issuer: ROOT, notBefore: new Date(0), validDays: -1 }).certificate,
      /lacks a valid/,
    ],
    [
      "is there, and its own issuer is unknown",
      ISSUED.certificate + INTERMEDIATE.certificate,
      /lacks a valid certificate of CN=Root/,
    ],
  ])("intermediate certificate that %s gives a warning [R-893]", async (_, cert, says) => {
    const files = owned.use(tlsFiles({ ...ISSUED, certificate: cert }));
    expect((await readCertificate(files)).flaw).toMatch(says);
  });

  test.each([
    ["a complete chain", { ...ISSUED, certificate: ISSUED.certificate + INTERMEDIATE.certificate + ROOT.certificate }],
    ["a certificate that signs itself", GOOD],
    [
      "a certificate that signs itself, with another behind it",
      { ...GOOD, certificate: GOOD.certificate + OTHER.certificate },
    ],
  ])("intermediate certificate is not missed for %s", async (_, certificate) => {
    expect((await readCertificate(owned.use(tlsFiles(certificate)))).flaw).toBeNull();
  });
});
