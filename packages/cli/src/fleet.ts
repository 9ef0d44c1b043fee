/** Commands for the site, registration and discovery. */
import { send, sendUntilAnswered } from "./api.ts";
import { nearest } from "../../client/src/filter-language.ts";
import { EXIT, usageError } from "./exit.ts";
import { printFields } from "./nodes.ts";
import { ask, canAsk } from "./question.ts";
import { readText } from "./selection.ts";
import { print, printJson, warn } from "./session.ts";
import type { Session } from "./session.ts";
import { safe } from "./text.ts";
import { assignment, jsonObject } from "./values.ts";
import { awaitOperations } from "./wait.ts";
import { waitOptions, warnErrors } from "./work.ts";
import type { Refusal, VerbFlags } from "./work.ts";

export async function getSite(session: Session): Promise<number> {
  const { site } = await send(session.server, "site");
  printFields(session, site);
  return EXIT.done;
}

/** Fields that the service keeps itself. */
const READ_ONLY = new Set(["revision", "updatedAt", "updatedBy"]);

export async function setSite(session: Session, assignments: readonly string[]): Promise<number> {
  const input = Object.fromEntries(assignments.map((one) => assignment(one)));
  const { site } = await send(session.server, "site");
  const fields = Object.keys(site).filter((field) => !READ_ONLY.has(field));
  for (const field of Object.keys(input)) {
    if (fields.includes(field)) continue;
    const meant = nearest(field, fields);
    const hint = meant === null ? `Use ${fields.join(", ")}.` : `Did you mean ${meant}?`;
    throw usageError(`The site has no field ${safe(field)}. ${hint}`);
  }
  const { answer } = await send(session.server, "updateSite", { input: { ...input, ifRevision: site.revision } });
  return finished(session, answer, "The site was changed.");
}

export async function registerNodes(session: Session, file: string): Promise<number> {
  const input = jsonObject(file, readText(file));
  const { answer } = await send(session.server, "registerNodes", { input });
  if (session.output !== "json") for (const { name } of answer.nodes) print(safe(name));
  return finished(session, answer, `${answer.count} registered.`);
}

export interface DiscoverFlags extends VerbFlags {
  readonly driver?: string;
  readonly set?: readonly string[];
  readonly secret?: readonly string[];
  readonly setLabel?: readonly string[];
  readonly cluster?: string;
  readonly namePrefix?: string;
  readonly reason?: string;
  readonly idempotencyKey?: string;
}

export async function discover(session: Session, addresses: readonly string[], flags: DiscoverFlags): Promise<number> {
  if (flags.driver === undefined) throw usageError("`discover` needs --driver. Example: --driver redfish");
  const wait = waitOptions(flags);
  const settings: Record<string, unknown> = Object.fromEntries((flags.set ?? []).map((one) => assignment(one)));
  for (const name of flags.secret ?? []) settings[name] = await secret(name);
  const idempotencyKey = flags.idempotencyKey ?? crypto.randomUUID();
  const input = {
    addresses,
    driver: { [flags.driver]: settings },
    idempotencyKey,
    ...(flags.cluster !== undefined && { cluster: { name: flags.cluster } }),
    ...(flags.namePrefix !== undefined && { namePrefix: flags.namePrefix }),
    ...(flags.reason !== undefined && { reason: flags.reason }),
    ...(flags.setLabel && { labels: labelsOf(flags.setLabel) }),
    ...(flags.dryRun && { dryRun: true }),
  };
  const { answer } = await sendUntilAnswered(session.server, "discoverNodes", { input }, Date.now() + 60_000);
  const code = finished(session, answer, flags.dryRun ? "The discovery would start." : "The discovery has started.");
  const uuid = answer.operation?.uuid;
  if (uuid !== undefined && session.output !== "json") print(uuid);
  return flags.wait && uuid !== undefined ? awaitOperations(session, [uuid], wait) : code;
}

export function labelsOf(assignments: readonly string[]): object[] {
  return assignments.map((one) => {
    const [key, value] = assignment(one, { isText: true });
    return { key, value };
  });
}

/** A secret, from the terminal without echo, or a line of standard input. */
export async function secret(name: string): Promise<string> {
  const value = canAsk()
    ? await ask(`${name}: `, { isSecret: true })
    : (readText("-").split("\n")[0] ?? "").replace(/\r$/, "");
  if (value === "") throw usageError(`No ${safe(name)} was given.`);
  return value;
}

/** Prints the answer of a request that starts no work, and returns the exit code. */
export function finished(session: Session, answer: { readonly errors: readonly Refusal[] }, text: string): number {
  if (session.output === "json") printJson(answer);
  warnErrors(answer.errors);
  if (answer.errors.length > 0) return EXIT.refused;
  warn(text);
  return EXIT.done;
}
