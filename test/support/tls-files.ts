/** Files with a certificate and its key, as an operator gives them to the service. */
import { chmodSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeCertificate } from "../../packages/bmc-simulator/src/certificates.ts";
import type { CertificateRequest, TlsCertificate } from "../../packages/bmc-simulator/src/certificates.ts";
import type { TlsFiles } from "../../src/config/values.ts";

const DAY_MS = 86_400_000;

/** A certificate of 127.0.0.1, by default one that signs itself and is valid for 30 days from yesterday. */
export function aCertificate(
  given: Partial<CertificateRequest> & { readonly validDays?: number } = {},
): TlsCertificate {
  const { validDays = 30, ...request } = given;
  return makeCertificate({
    name: "ostler.example",
    issuer: null,
    hosts: ["127.0.0.1", "localhost", "ostler.example"],
    notBefore: new Date(Date.now() - DAY_MS),
    notAfter: new Date(Date.now() + validDays * DAY_MS),
    ...request,
  });
}

export interface WrittenFiles extends TlsFiles, Disposable {
  /** Replaces each file that is given. */
  write(texts: { readonly cert?: string; readonly key?: string }): void;
}

export function tlsFiles({ certificate, key }: TlsCertificate): WrittenFiles {
  const folder = mkdtempSync(join(tmpdir(), "tls-files-"));
  const paths = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  const replace = (path: string, text: string, mode: number) => {
    writeFileSync(`${path}.new`, text);
    chmodSync(`${path}.new`, mode);
    renameSync(`${path}.new`, path);
  };
  const files: WrittenFiles = {
    ...paths,
    write(texts) {
      if (texts.cert !== undefined) replace(paths.cert, texts.cert, 0o644);
      if (texts.key !== undefined) replace(paths.key, texts.key, 0o600);
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  };
  files.write({ cert: certificate, key });
  return files;
}
