/**
 * The certificate of the port, from two files: reading and checking it, and exchanging it when the files change. Errors
 * name the variable, the file and the remedy.
 */
import { X509Certificate, createPrivateKey } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import type { RequestListener, ServerOptions } from "node:http";
import { createSecureContext, getCACertificates } from "node:tls";
import type { Server as TlsServer } from "node:tls";
import { ConfigError } from "../../config/values.ts";
import type { TlsFiles } from "../../config/values.ts";
import { messageOf } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { noopObserver } from "../../observer.ts";
import type { Observer } from "../../observer.ts";
import { startPeriodic } from "../../runtime/periodic.ts";
import { createWebServer, tlsOptions } from "./web-server.ts";
import type { KeyPair, WebServer } from "./web-server.ts";

/** Interval of reading the files. Contents are compared: files are replaced by rename, and behind links. */
const RELOAD_MS = 1_000;
/** The permission of everyone to read a file. */
const READ_BY_ALL = 0o004;

export interface TlsParts {
  /** Null: HTTP in clear. */
  readonly tls?: TlsFiles | null;
  readonly log: Log;
  readonly observer?: Observer | undefined;
}

/** A server with the certificate of these files, which it exchanges when they change. Connections are not affected. */
export async function createPort(
  options: ServerOptions,
  { tls = null, log, observer = noopObserver }: TlsParts,
  answer: RequestListener,
): Promise<WebServer> {
  if (tls === null) return createWebServer(options, null, answer);
  const first = await readCertificate(tls);
  const web = createWebServer(options, first, answer);
  const use = ({ subject, expiresAt, flaw }: Certificate) => {
    log.info({ subject, expiresAt }, "the certificate of the port is in use");
    if (flaw !== null) log.warn(flaw);
    observer.certificateUsed(expiresAt);
  };
  use(first);
  web.server.once("listening", () => {
    const watch = watchCertificate(tls, first, log, (certificate) => {
      (web.server as unknown as TlsServer).setSecureContext(tlsOptions(certificate));
      use(certificate);
    });
    web.server.once("close", () => watch.stop());
  });
  return web;
}

/**
 * Calls `onChange` with each new certificate. One that cannot be used is logged once, if it is the same at the next
 * look: two files are not replaced in one moment.
 */
function watchCertificate(
  files: TlsFiles,
  first: Certificate,
  log: Log,
  onChange: (certificate: Certificate) => void,
): { stop(): void } {
  let inUse = first;
  let seen: string | null = null;
  let logged: string | null = null;
  return startPeriodic(
    RELOAD_MS,
    async () => {
      const pair = await readPair(files);
      if (pair.cert !== inUse.cert || pair.key !== inUse.key) onChange((inUse = checkPair(files, pair)));
      seen = logged = null;
    },
    (error) => {
      const why = messageOf(error);
      if (why === seen && why !== logged) {
        log.error({ why }, "the changed certificate cannot be used; the port keeps the old one");
        logged = why;
      }
      seen = why;
    },
  );
}

export interface Certificate extends KeyPair {
  readonly subject: string;
  readonly expiresAt: Date;
  /** Why some clients refuse it; null if no reason is known. */
  readonly flaw: string | null;
}

/** Throws a `ConfigError` if the files have no certificate and key that can be used now. */
export async function readCertificate(files: TlsFiles): Promise<Certificate> {
  return checkPair(files, await readPair(files));
}

/** `mode`: of the file with the key. */
async function readPair(files: TlsFiles) {
  const { text: cert } = await readText("OSTLER_TLS_CERT", files.cert);
  const { text: key, mode } = await readText("OSTLER_TLS_KEY", files.key);
  return { cert, key, mode };
}

async function readText(variable: string, path: string) {
  try {
    const found = await stat(path);
    // A pipe or a device could be read once only, or without end.
    if (!found.isFile()) throw new Error("it is not a file");
    return { text: await readFile(path, "latin1"), mode: found.mode };
  } catch (error) {
    throw new ConfigError(
      `The file ${path} of ${variable} cannot be read: ${messageOf(error)}. Check its path, and that the user of the service may read it.`,
    );
  }
}

function checkPair(files: TlsFiles, { cert, key, mode }: Awaited<ReturnType<typeof readPair>>): Certificate {
  const certFile = `The file ${files.cert} of OSTLER_TLS_CERT`;
  const keyFile = `The file ${files.key} of OSTLER_TLS_KEY`;
  const [inCert, inKey] = [blocksOf(cert, certFile), blocksOf(key, keyFile)];
  if (inCert.certificates.length === 0 && inKey.keys.length === 0 && inCert.keys.length + inKey.certificates.length > 0)
    throw new ConfigError(
      `OSTLER_TLS_CERT and OSTLER_TLS_KEY are swapped: ${files.cert} has the private key, or ${files.key} the certificate. Exchange the two.`,
    );
  if (inCert.certificates.length === 0)
    throw new ConfigError(
      `${certFile} has no certificate in PEM format, which begins with -----BEGIN CERTIFICATE-----. Name the file with the certificate; \`openssl x509 -inform der\` converts a binary one.`,
    );
  const [keyText] = inKey.keys;
  if (keyText === undefined)
    throw new ConfigError(
      `${keyFile} has no private key in PEM format, which begins with -----BEGIN PRIVATE KEY-----. Name the file with the key; \`openssl pkey -inform der\` converts a binary one.`,
    );
  if ((mode & READ_BY_ALL) !== 0)
    throw new ConfigError(`${keyFile} can be read by every user of this host. Run chmod o= ${files.key}.`);
  if (/ENCRYPTED/.test(keyText))
    throw new ConfigError(
      `${keyFile} has an encrypted key, and the service has no password for it. Decrypt it with \`openssl pkey -in ${files.key}\`.`,
    );
  const chain = inCert.certificates.map((text) =>
    parsed(() => new X509Certificate(text), `${certFile} has a certificate that cannot be read`),
  );
  const privateKey = parsed(() => createPrivateKey(keyText), `${keyFile} has a key that cannot be read`);
  const index = chain.findIndex((one) => one.checkPrivateKey(privateKey));
  const leaf = chain[index];
  if (leaf === undefined)
    throw new ConfigError(`${keyFile} has the key of another certificate than ${files.cert}. Name two that match.`);
  if (index > 0)
    throw new ConfigError(
      `${certFile} begins with another certificate than that of the key, which is number ${index + 1}. Put it first.`,
    );
  checkDates(leaf, certFile);
  parsed(
    () => createSecureContext(tlsOptions({ cert, key })),
    `${certFile} cannot be used for TLS`,
    "Use another certificate.",
  );
  const flaw = flawOf(leaf, chain, certFile);
  return { cert, key, subject: nameText(leaf.subject), expiresAt: leaf.validToDate, flaw };
}

/** The parts of a PEM file. */
function blocksOf(text: string, file: string) {
  const blocks = [...text.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----[\s\S]*?-----END \1-----/g)];
  if (blocks.length < text.split("-----BEGIN ").length - 1)
    throw new ConfigError(`${file} is incomplete: a part has no end. Write it again.`);
  const ofKind = (kind: RegExp) => blocks.filter(([, label = ""]) => kind.test(label)).map(([block]) => block);
  return { certificates: ofKind(/^(X509 |TRUSTED )?CERTIFICATE$/), keys: ofKind(/PRIVATE KEY$/) };
}

function parsed<T>(parse: () => T, what: string, remedy = "Write it again."): T {
  try {
    return parse();
  } catch (error) {
    throw new ConfigError(`${what}: ${messageOf(error)}. ${remedy}`);
  }
}

function checkDates({ validFromDate, validToDate }: X509Certificate, file: string): void {
  if (validToDate < new Date())
    throw new ConfigError(`${file} has a certificate that expired at ${validToDate.toISOString()}. Renew it.`);
  if (validFromDate > new Date())
    throw new ConfigError(
      `${file} has a certificate that is not valid before ${validFromDate.toISOString()}. Check the clock of this host, or use another certificate.`,
    );
}

/** Only a warning follows: clients may know an authority that this host does not. */
function flawOf(leaf: X509Certificate, chain: readonly X509Certificate[], file: string): string | null {
  // Authorities can have signed each other.
  const unused = new Set(chain.filter((one) => one !== leaf && one.validToDate > new Date()));
  let last = leaf;
  for (let next: X509Certificate | undefined = leaf; next; next = [...unused].find((one) => last.checkIssued(one))) {
    last = next;
    unused.delete(next);
  }
  if (last.checkIssued(last) || getCACertificates().some((text) => last.checkIssued(new X509Certificate(text))))
    return null;
  return `${file} lacks a valid certificate of ${nameText(last.issuer)}, which issued that of ${nameText(last.subject)}: clients that do not know it refuse the connection. Append the intermediate certificates to the file.`;
}

/** A name on one line. */
function nameText(name: string): string {
  return name.replaceAll("\n", ", ");
}
