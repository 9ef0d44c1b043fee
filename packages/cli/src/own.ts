/** Commands of the program itself: contexts, login, and documents of one's own. */
import { followDocument, linePosition, post, send } from "./api.ts";
import type { Position, Variables } from "./api.ts";
import { checkedToken, checkedUrl, contextNamed, readContexts, resolveEndpoint, writeContexts } from "./contexts.ts";
import type { Contexts } from "./contexts.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import { secret } from "./fleet.ts";
import { readText } from "./selection.ts";
import { print, printJson, printTable, warn } from "./session.ts";
import type { Session } from "./session.ts";
import { safe } from "./text.ts";
import { assignment } from "./values.ts";

export interface ContextFlags {
  readonly server?: string;
  readonly tokenFile?: string;
  readonly tokenCommand?: string;
}

export function listContexts(session: Session): number {
  const { current, contexts } = readContexts();
  // Tokens never come back out.
  const rows = contexts.map(({ name, server }) => ({ name, server, current: name === current }));
  if (session.output === "json") printJson(rows);
  else if (session.output === "names") for (const { name } of rows) print(safe(name));
  else
    printTable(
      session,
      [
        { title: "NAME", value: ({ name }) => name },
        { title: "SERVER", value: ({ server }) => server },
        { title: "CURRENT", value: (one) => (one.current ? "*" : "") },
      ],
      rows,
    );
  return EXIT.done;
}

export function addContext(name: string, { server, tokenFile, tokenCommand }: ContextFlags): number {
  if (server === undefined) throw usageError("`context add` needs --server URL.");
  const { current, contexts } = readContexts();
  const added = {
    name,
    server: checkedUrl(server),
    ...(tokenFile !== undefined && { tokenFile }),
    ...(tokenCommand !== undefined && { tokenCommand }),
  };
  writeContexts({ current: current ?? name, contexts: [...contexts.filter((one) => one.name !== name), added] });
  warn(`Context ${name} was added. If the service needs a token, store it: ostler login`);
  return EXIT.done;
}

export function useContext(name: string): number {
  const { contexts } = readContexts();
  writeContexts({ current: contextNamed(name, { current: null, contexts }).name, contexts });
  warn(`Commands now use ${name}.`);
  return EXIT.done;
}

export function removeContext(name: string): number {
  const { current, contexts } = readContexts();
  contextNamed(name, { current, contexts });
  const others = contexts.filter((one) => one.name !== name);
  writeContexts({ current: current === name ? null : current, contexts: others });
  warn(`Context ${name} was removed.`);
  return EXIT.done;
}

export async function showContext(session: Session): Promise<number> {
  const { viewer, service } = await send(session.server, "viewer");
  const shown = { server: session.server.url, context: readContexts().current, version: service.version, ...viewer };
  if (session.output === "json") printJson(shown, 2);
  else for (const [field, value] of Object.entries(shown)) print(`${field.padEnd(14)} ${safe(String(value ?? ""))}`);
  return EXIT.done;
}

/** Reads a token without echo, checks it with the service, and stores it with the context. */
export async function login(
  session: Session,
  flags: { readonly context?: string; readonly server?: string },
): Promise<number> {
  const known = readContexts();
  const name = flags.context ?? (flags.server === undefined ? known.current : null) ?? "default";
  const { url } = flags.context === undefined ? session.server : resolveEndpoint({ context: flags.context });
  const token = checkedToken(await secret("token"));
  const { viewer } = await send({ ...session.server, url, token }, "viewer");
  const contexts: Contexts["contexts"] = [
    ...known.contexts.filter((one) => one.name !== name),
    { name, server: url, token },
  ];
  writeContexts({ current: known.current ?? name, contexts });
  warn(
    `Signed in to ${url} as ${viewer.displayName ?? viewer.subject} (${viewer.roles.join(", ") || "no role"}), as context ${name}.`,
  );
  return EXIT.done;
}

/** Sends a document. A subscription is followed until it ends, one item per line. */
export async function query(session: Session, file: string, given: readonly string[]): Promise<number> {
  const text = readText(file);
  const variables = Object.fromEntries(given.map((one) => assignment(one)));
  const isSubscription = /^\s*(?:#.*\s*|fragment[^{]*\{[^]*?\}\s*)*subscription\b/.test(text);
  if (isSubscription) {
    const way = { position: documentPosition(text, variables), isOfUser: true };
    for await (const data of followDocument(session.server, { query: text, variables }, way)) printJson(data);
    return EXIT.done;
  }
  const { data, errors = [] } = await post(session.server, { query: text, variables }, { isOfUser: true });
  printJson({ ...(data !== undefined && { data }), ...(errors.length > 0 && { errors }) }, 2);
  for (const { message } of errors) warn(message);
  return errors.length > 0 ? EXIT.refused : EXIT.done;
}

/** A subscription continues after its last cursor if it takes `$after`, and with a snapshot also `$snapshot`. */
function documentPosition(text: string, { after, snapshot }: Variables): Position {
  const takes = (variable: string) => new RegExp(`\\$${variable}\\s*:`).test(text);
  const hasSnapshot =
    snapshot === undefined ? /\bsnapshot\s*:\s*(Boolean!?\s*=\s*)?true\b/.test(text) : snapshot === true;
  const canContinue = takes("after") && /\bcursor\b/.test(text) && (!hasSnapshot || takes("snapshot"));
  const position = linePosition({ after: typeof after === "string" ? after : null, snapshot: hasSnapshot });
  const lost = () => {
    throw new CliError(
      EXIT.unreachable,
      "The connection was lost, and the stream cannot continue. Let the document take $after: String, and $snapshot: Boolean if it begins with a snapshot, as arguments of the stream, and select cursor and snapshotComplete.",
    );
  };
  return canContinue ? position : { ...position, lost };
}
