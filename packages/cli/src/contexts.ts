/** The services that a user knows (contexts.json), and which of them a command speaks to, with which token. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { CliError, EXIT, messageOf, usageError } from "./exit.ts";
import { safe } from "./text.ts";

export interface ServiceContext {
  readonly name: string;
  readonly server: string;
  readonly token?: string;
  readonly tokenFile?: string;
  /** A shell command that prints the token. */
  readonly tokenCommand?: string;
}

export interface Contexts {
  readonly current: string | null;
  readonly contexts: readonly ServiceContext[];
}

export interface Endpoint {
  readonly url: string;
  readonly token: string | null;
}

/** Used if no other service is chosen. */
let ownUrl = "http://127.0.0.1:4000/graphql";
let isOnHost = false;
const NONE: Contexts = { current: null, contexts: [] };

/** Once, before a command chooses its service: the environment has the settings of one on this host. */
export function setOwnService(url: string | null): void {
  isOnHost = true;
  if (url !== null) ownUrl = checkedUrl(url);
}

function contextsFile(): string | null {
  const { XDG_CONFIG_HOME, HOME } = process.env;
  const folder = XDG_CONFIG_HOME || (HOME ? join(HOME, ".config") : "");
  return folder === "" ? null : join(folder, "ostler", "contexts.json");
}

export function readContexts(): Contexts {
  const file = contextsFile();
  if (file === null) return NONE;
  let text: string;
  try {
    if ((statSync(file).mode & 0o077) !== 0)
      throw usageError(`${file} can be read by others, and has tokens. Run: chmod 600 ${file}`);
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && ["ENOENT", "ENOTDIR"].includes(String(error.code))) return NONE;
    throw error instanceof CliError ? error : usageError(`${file} cannot be read: ${messageOf(error)}.`);
  }
  try {
    const { current, contexts } = JSON.parse(text) as Contexts;
    const isWhole = contexts.every(({ name, server }) => typeof name === "string" && typeof server === "string");
    if (isWhole) return { current: current ?? null, contexts };
  } catch {
    // Reported below, as for a document of another form.
  }
  throw usageError(`${file} is not a file of contexts. Correct or delete it, then use \`ostler context add\`.`);
}

/** Replaces the file at once, so that no reader finds half of it. */
export function writeContexts(contexts: Contexts): void {
  const file = contextsFile();
  if (file === null) throw usageError("Contexts cannot be stored: neither HOME nor XDG_CONFIG_HOME is set.");
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(draft, `${JSON.stringify(contexts, null, 2)}\n`, { mode: 0o600 });
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw new CliError(EXIT.failed, `${file} cannot be written: ${messageOf(error)}.`);
  }
}

export function contextNamed(name: string, { contexts } = readContexts()): ServiceContext {
  const found = contexts.find((one) => one.name === name);
  if (found) return found;
  const known = contexts.length === 0 ? "there are none" : contexts.map((one) => one.name).join(", ");
  throw usageError(`Context ${safe(name)} does not exist (${known}). Use \`ostler context add NAME --server URL\`.`);
}

/**
 * Flags come first, then the environment, then the current context. A token goes only to its own server: on the host of
 * a service that of the environment is its administrator's, and goes to it and to OSTLER_URL.
 */
export function resolveEndpoint(flags: Partial<Record<"server" | "context", string>>, commandMs = 60_000): Endpoint {
  const { OSTLER_URL, OSTLER_TOKEN, OSTLER_TOKEN_FILE } = process.env;
  const ofEnvironment = (url: string) => {
    if (isOnHost && url !== ownUrl && (!OSTLER_URL || url !== checkedUrl(OSTLER_URL))) return null;
    return OSTLER_TOKEN ? checkedToken(OSTLER_TOKEN) : OSTLER_TOKEN_FILE ? tokenOfFile(OSTLER_TOKEN_FILE) : null;
  };
  const at = (url: string): Endpoint => ({ url, token: ofEnvironment(url) });
  if (flags.server !== undefined) {
    if (flags.context !== undefined) throw usageError("Use one of --server and --context.");
    return at(checkedUrl(flags.server));
  }
  if (flags.context !== undefined) return endpointOf(contextNamed(flags.context), commandMs);
  if (OSTLER_URL) return at(checkedUrl(OSTLER_URL));
  const known = readContexts();
  if (known.current === null) return at(ownUrl);
  const context = contextNamed(known.current, known);
  const url = checkedUrl(context.server);
  return { url, token: ofEnvironment(url) ?? endpointOf(context, commandMs).token };
}

function endpointOf({ server, token, tokenFile, tokenCommand }: ServiceContext, timeout: number): Endpoint {
  const url = checkedUrl(server);
  if (token !== undefined) return { url, token: checkedToken(token) };
  if (tokenFile !== undefined) return { url, token: tokenOfFile(tokenFile) };
  if (tokenCommand === undefined) return { url, token: null };
  try {
    const stdio = ["ignore", "pipe", "inherit"] as ["ignore", "pipe", "inherit"];
    return {
      url,
      token: checkedToken(execFileSync("sh", ["-c", tokenCommand], { encoding: "utf8", stdio, timeout })),
    };
  } catch (error) {
    throw error instanceof CliError ? error : usageError(`The tokenCommand of the context fails: ${messageOf(error)}.`);
  }
}

function tokenOfFile(file: string): string {
  try {
    return checkedToken(readFileSync(file, "utf8"));
  } catch (error) {
    throw error instanceof CliError ? error : usageError(`The file of the token cannot be read: ${messageOf(error)}.`);
  }
}

export function checkedToken(text: string): string {
  const token = text.trim();
  if (!/^[\u0021-\u007e]+$/.test(token))
    throw usageError("The token is empty, or has a line break, a space or another character that no token has.");
  return token;
}

export function checkedUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "")
    throw usageError(`${safe(text)} is not the address of a service. Example: https://ostler.example:4000`);
  if (url.pathname === "/") url.pathname = "/graphql";
  return url.href;
}
