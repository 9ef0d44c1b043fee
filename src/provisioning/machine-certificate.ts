/** The certificate that the service makes for machines. It signs itself: agents know it by its fingerprint. */
import { KeyObject, X509Certificate } from "node:crypto";
import type { KeyPair } from "../http/port/web-server.ts";

/** RFC 5280: without a defined end. The clock of a machine may be wrong, so agents do not check dates. */
const NO_END = new Date("9999-12-31T23:59:59Z");

/** Loads the library, which changes the global `Reflect`, only for the first start on a database. */
export async function makeMachineCertificate(): Promise<KeyPair> {
  await import("reflect-metadata");
  const { X509CertificateGenerator } = await import("@peculiar/x509");
  const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: "CN=Ostler listener for machines",
    notBefore: new Date(0),
    notAfter: NO_END,
    signingAlgorithm: { name: "ECDSA", hash: "SHA-256" },
    keys,
  });
  return {
    cert: certificate.toString("pem"),
    key: KeyObject.from(keys.privateKey).export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

/** SHA-256 of a certificate, in lower-case hexadecimal. */
export function fingerprintOf({ cert }: Pick<KeyPair, "cert">): string {
  return new X509Certificate(cert).fingerprint256.replaceAll(":", "").toLowerCase();
}
