/** How this driver reaches a machine by SSH: the options that Ansible gets too, and a login of its own. */
import { randomUUID } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import type { MachineCall } from "../../src/drivers/driver.ts";
import { bmcName } from "../bmc-settings.ts";
import { privateFolder } from "../private-folder.ts";
import { AnsibleError, lastLine, loginFailure } from "./failure.ts";
import { KEY_REFUSED, runGuarded } from "./guarded-program.ts";
import type { AnsibleSettings } from "./settings.ts";

/** The parts of a call that a login needs. */
export type LoginCall = Pick<
  MachineCall<Omit<AnsibleSettings, "privateKey"> & Pick<AnsibleSettings, "privateKey">>,
  "settings" | "addresses" | "signal" | "timed"
>;

/** A machine that has let the driver in, as it reports itself. */
export interface ReachedMachine {
  readonly name?: string;
  readonly uuid?: string;
  readonly serial?: string;
  /** The keys of the host that were accepted, if none was known. */
  readonly hostKeys: readonly string[];
}

const BANNER_MS = 10_000;
/** Of a connection, greeting included. A machine that has just started may need long for its first ones. */
export const CONNECT_SECONDS = 30;
const STALE_MS = 3_600_000;

/**
 * Length of the path of the folder at most: the folder of a node, of 33 characters, has sockets of ssh, which Ansible
 * names by 10 characters and ssh by 17 more while it opens them. The path of a socket has 107.
 */
const FOLDER_LENGTH_MAX = 107 - 33 - 11 - 17;

/** The folder of all files of this driver. */
export function driverFolder(): string {
  const folder = privateFolder("ansible");
  if (folder !== undefined && folder.length > FOLDER_LENGTH_MAX)
    throw new AnsibleError(
      "OTHER",
      `The ansible driver needs a folder for temporary files with a shorter path, for sockets in it: ${folder} has ${folder.length} characters, ${FOLDER_LENGTH_MAX} are possible. Set TMPDIR.`,
    );
  if (folder !== undefined) return folder;
  throw new AnsibleError(
    "OTHER",
    "The ansible driver has no folder for its files: that below the folder for temporary files belongs to another user. Remove it, or set TMPDIR.",
  );
}

/** The address to which the service has resolved the host's name for this call; else the address in the settings. */
export function addressOf({ settings, addresses }: Pick<LoginCall, "settings" | "addresses">): string {
  return addresses?.[settings.address] ?? settings.address;
}

/** The file with the host key that a node has shown first. */
export function firstUseFile(nodeId: string): string {
  const folder = join(driverFolder(), "known_hosts");
  mkdirSync(folder, { recursive: true });
  return join(folder, nodeId);
}

/**
 * Options of ssh. `folder`: for a file with the host keys of the settings. `firstUse`: the file to which the first host
 * key is added, if the settings have none and allow it.
 */
export function sshOptions(settings: AnsibleSettings, folder: string, firstUse: string): readonly string[] {
  const { hostKeys, hostKey, privateKey } = settings;
  const name = hostName(settings);
  let known: readonly string[] = [];
  if (hostKeys) {
    const file = join(folder, "known_hosts");
    writeFileSync(file, hostKeys.map((key) => `${name} ${key}\n`).join(""));
    known = [`UserKnownHostsFile=${file}`, "GlobalKnownHostsFile=/dev/null"];
  } else if (hostKey === "FIRST_USE") known = [`UserKnownHostsFile=${firstUse}`, "GlobalKnownHostsFile=/dev/null"];
  const accepts = !hostKeys && hostKey === "FIRST_USE";
  return [
    ...known,
    `StrictHostKeyChecking=${accepts ? "accept-new" : "yes"}`,
    `HostKeyAlias=${name}`,
    "UpdateHostKeys=no",
    // No key of the service's user: the machine is to be reached with the login of its node.
    "IdentityFile=none",
    ...(privateKey === undefined ? ["IdentityAgent=none"] : []),
    `ConnectTimeout=${CONNECT_SECONDS}`,
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
  ].flatMap((option) => ["-o", option]);
}

/** The name by which the key of a host is known, in the notation of known_hosts. */
function hostName({ address, port }: Pick<AnsibleSettings, "address" | "port">): string {
  return port === 22 ? address : `[${address}]:${port}`;
}

/** A command by which a machine reports what it is, without Python. Changes nothing. */
const REPORT =
  'echo "name=$(uname -n)"; for f in uuid serial; do echo "$f=$(cat /sys/class/dmi/id/product_$f 2>/dev/null)"; done';

/** Logs in, and asks the machine what it is. Throws an `AnsibleError`, or the signal's reason. */
export async function logIn(call: LoginCall, firstUse: string | null): Promise<ReachedMachine> {
  const { settings, signal } = call;
  const host = bmcName(settings);
  await call.timed("ssh banner", () => requireServer(addressOf(call), settings.port, host, signal));
  const folder = temporaryFolder();
  try {
    const first = firstUse ?? join(folder, "first_use");
    const options = sshOptions(settings, folder, first);
    const { port, username, privateKey, password } = settings;
    const asking = password === undefined ? "BatchMode=yes" : "NumberOfPasswordPrompts=1";
    const login = ["-T", "-o", "ControlPath=none", "-o", asking, "-p", String(port), "-l", username];
    const ssh = ["ssh", ...options, ...login, "--", addressOf(call), REPORT];
    const ended = await call.timed("ssh login", () =>
      runGuarded({
        words: (password === undefined ? ssh : ["sshpass", "-d4", ...ssh]) as [string, ...string[]],
        environment: {},
        folder,
        run: randomUUID(),
        ...(password !== undefined && { secondInput: { text: `${password}\n` } }),
        ...(privateKey !== undefined && { identity: { privateKey, socket: join(folder, "agent") } }),
        signal,
      }),
    );
    if (ended.code === KEY_REFUSED) throw keyRefused(host, ended.stderr);
    const facts = factsIn(ended.stdout);
    if (facts === null) throw loginFailure(host, `${ended.stderr}\n${exitText(ended.code)}`);
    return { ...facts, hostKeys: keysIn(first) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The meaning of the exit codes of sshpass, which prints nothing. */
function exitText(code: number | null): string {
  return code === 5 ? "Permission denied" : code === 6 ? "Host key verification failed" : "";
}

export function keyRefused(host: string, text: string): AnsibleError {
  return new AnsibleError(
    "AUTHENTICATION",
    `The privateKey for host ${host} cannot be used: "${lastLine(text)}". Give one in PEM or OpenSSH format, without a passphrase.`,
  );
}

/** Throws unless an SSH server answers: SSH itself would wait for long, and start for nothing. */
async function requireServer(address: string, port: number, host: string, signal: AbortSignal): Promise<void> {
  const refuse = (how: string) =>
    new AnsibleError(
      "UNREACHABLE",
      `Host ${host} ${how}; check that it runs, its network, and address and port in the node's settings.`,
      { retryable: true },
    );
  signal.throwIfAborted();
  const socket = connect({ host: address, port, signal });
  try {
    await new Promise<void>((resolve, reject) => {
      let text = "";
      socket.setTimeout(BANNER_MS, () => reject(refuse("does not answer")));
      socket.on("error", () => reject(refuse("does not answer")));
      socket.on("close", () => reject(refuse("has ended the connection")));
      socket.on("data", (chunk: Buffer) => {
        text += chunk.toString("latin1");
        if (/^SSH-/m.test(text)) resolve();
        else if (text.length > 8192) reject(refuse("answers, but is not an SSH server"));
      });
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    socket.destroy();
  }
}

function temporaryFolder(): string {
  const base = driverFolder();
  // A worker that was killed leaves its folder behind, with nothing secret in it.
  for (const name of readdirSync(base)) if (name.startsWith("login-")) removeStale(join(base, name));
  return mkdtempSync(join(base, "login-"));
}

function removeStale(folder: string): void {
  try {
    if (Date.now() - statSync(folder).mtimeMs > STALE_MS) rmSync(folder, { recursive: true, force: true });
  } catch {
    // Another worker has removed it.
  }
}

/** Null if the command did not run. */
function factsIn(stdout: string): Omit<ReachedMachine, "hostKeys"> | null {
  const facts = new Map(
    stdout.split("\n").flatMap((line) => {
      const [, name, value] = /^(name|uuid|serial)=(.*)$/.exec(line) ?? [];
      return name === undefined || value === undefined ? [] : [[name, value.trim().slice(0, 200)] as const];
    }),
  );
  if (!facts.has("serial")) return null;
  const known = [...facts].filter(([, value]) => value !== "");
  return Object.fromEntries(known);
}

/** The host keys in a file of known hosts. */
function keysIn(file: string): readonly string[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      const [, type, key] = line.split(" ");
      return type !== undefined && key !== undefined ? [`${type} ${key}`] : [];
    });
}
