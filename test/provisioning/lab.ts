/** A listener for machines with a simulated engine, boot media of a few kilobytes, and its log as text. */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { Agent as UndiciAgent } from "undici";
import type { Agents, BootTicket } from "../../src/engine/agents/agents.ts";
import { createLog } from "../../src/log.ts";
import { noopObserver } from "../../src/observer.ts";
import { createAgentMedia } from "../../src/provisioning/agent-media.ts";
import { startListener } from "../../src/provisioning/listener.ts";
import type { ListenerOptions } from "../../src/provisioning/listener.ts";
import { fingerprintOf } from "../../src/provisioning/machine-certificate.ts";
import { aCertificate } from "../support/tls-files.ts";

export const SESSION = "1b671a64-40d5-491e-99b0-da01ff1f3341";
export const SECRET = "a-secret-of-the-session-0123456789abcdefghij";
export const BEARER = { authorization: `Bearer ${SESSION}.${SECRET}` };
export const URL_OF_SERVICE = "http://10.77.0.1:4010";
const { certificate, key } = aCertificate({ name: "machines" });
/** How the agent reaches the service. */
export const CONTACT = {
  url: "https://10.77.0.1:4012",
  fingerprint: fingerprintOf({ cert: certificate }),
};
/** Connections that accept the certificate of the lab alone. */
export const AGENT = new UndiciAgent({ connect: { ca: certificate } });

export const TICKET: BootTicket = {
  session: SESSION,
  secret: SECRET,
  architecture: "X64",
  kernelArguments: ["console=ttyS1,9600", "nosmt"],
  network: null,
};

export const SLOT = { offset: 300_000, length: 512 };
export const ARGUMENT_SLOT = { offset: 100, length: 64 };
export const ISO_BYTES = 600_000;

/** First report of an agent. */
export const REPORT = {
  instance: "0123456789abcdef",
  version: "1.0.0",
  protocol: 2,
  architecture: "X64",
  bootMode: "UEFI",
  address: "10.77.0.101",
  macs: ["52:54:00:77:00:01"],
  disks: 2,
};

/** An engine that knows nothing; `given` replaces functions. */
function agentsWith(given: Partial<Agents>): Agents {
  return {
    poll: async () => "UNKNOWN",
    result: async () => "UNKNOWN",
    networkBoot: async () => null,
    medium: async () => null,
    isOpen: async () => false,
    reached: async () => {},
    leased: async () => {},
    callHome: async () => false,
    ...given,
  };
}

export interface Lab extends AsyncDisposable {
  readonly url: string;
  /** Of the port that speaks TLS. */
  readonly tlsUrl: string;
  readonly folder: string;
  /** Everything that was logged. */
  logged(): string;
}

export async function startLab(agents: Partial<Agents>, given: Partial<ListenerOptions> = {}): Promise<Lab> {
  const folder = mkdtempSync(join(tmpdir(), "provisioning-"));
  const lines: string[] = [];
  const to = new Writable({
    write(line: Buffer, _, done) {
      lines.push(line.toString());
      done();
    },
  });
  const log = createLog("trace", to);
  const listener = await startListener({
    host: "127.0.0.1",
    port: 0,
    tlsPort: 0,
    agentUrl: CONTACT.url,
    certificate: { cert: certificate, key },
    url: URL_OF_SERVICE,
    agents: agentsWith(agents),
    media: createAgentMedia(folder, log),
    storedImage: async () => null,
    firmware: { X64: [join(folder, "x64", "ipxe.efi")], ARM64: [] },
    log,
    observer: noopObserver,
    ...given,
  });
  return {
    url: `http://127.0.0.1:${listener.port}`,
    tlsUrl: `https://127.0.0.1:${listener.tlsPort}`,
    folder,
    logged: () => lines.join(""),
    async [Symbol.asyncDispose]() {
      await listener[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true });
    },
  };
}

/** Writes boot media for X64; returns the bytes of their ISO. */
export function writeMedia(folder: string, change: Readonly<Record<string, unknown>> = {}): Buffer {
  const iso = Buffer.alloc(ISO_BYTES);
  for (let at = 0; at < iso.length; at += 4) iso.writeUInt32LE(at, at);
  const files = { vmlinuz: Buffer.alloc(70_000, "k"), initrd: Buffer.alloc(300_000, "i"), "agent.iso": iso };
  const at = join(folder, "x64");
  mkdirSync(at, { recursive: true });
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(at, name), bytes);
  const facts = Object.entries(files).map(
    ([name, bytes]) => [name, bytes.length, createHash("sha256").update(bytes).digest("hex")] as const,
  );
  const description = {
    version: "1.0.0",
    protocol: 2,
    architecture: "X64",
    kernelArguments: "ro panic=30",
    sizes: Object.fromEntries(facts.map(([name, size]) => [name, size])),
    sha256s: Object.fromEntries(facts.map(([name, , sum]) => [name, sum])),
    slot: SLOT,
    argumentSlots: [ARGUMENT_SLOT],
    ...change,
  };
  writeFileSync(join(at, "agent.json"), JSON.stringify(description));
  return iso;
}
