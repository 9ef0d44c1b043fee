/** Requests to the service: one answer, or a stream that resumes after any loss of the connection. */
import { setTimeout as pause } from "node:timers/promises";
import type { Endpoint } from "./contexts.ts";
import { CliError, EXIT, messageOf } from "./exit.ts";
import { REQUESTS } from "./requests.ts";
import type { Answers } from "./requests.ts";
import { durationText, safe, safeJson } from "./text.ts";

export interface Server extends Endpoint {
  /** Called with each text of `-v`; null without it. */
  readonly trace: ((text: string) => void) | null;
  /** Called when a stream is interrupted for long, and when it continues. */
  readonly report: (text: string) => void;
}

export type Variables = Readonly<Record<string, unknown>>;

interface GraphqlError {
  readonly message: string;
  readonly extensions?: { readonly code?: string };
}
interface Result {
  readonly data?: unknown;
  readonly errors?: readonly GraphqlError[];
}

const REQUEST_MS = 120_000;
/** The service sends a bookmark every ten seconds: a stream that is silent for longer is lost. */
const SILENCE_MS = 30_000;
const OUTAGE_MS = 15_000;
const PAUSE_MS = { first: 200, longest: 3_000 };
const TRANSIENT_STATUS = new Set([429, 502, 503, 504]);
const TRANSIENT_CODES = new Set(["DATABASE_UNAVAILABLE", "SHUTTING_DOWN", "CAPACITY", "RATE_LIMITED", "TIMEOUT"]);
const FORBIDDEN_CODES = new Set(["UNAUTHENTICATED", "FORBIDDEN"]);
const OTHER_SCHEMA_CODES = new Set(["GRAPHQL_VALIDATION_FAILED", "GRAPHQL_PARSE_FAILED"]);

export async function send<Name extends keyof Answers>(
  server: Server,
  name: Name,
  variables: Variables = {},
): Promise<Answers[Name]> {
  return (await post(server, { query: REQUESTS[name], variables })).data as Answers[Name];
}

/** Repeats a request that has an idempotency key until it is answered, or until a time. */
export async function sendUntilAnswered<Name extends keyof Answers>(
  server: Server,
  name: Name,
  variables: Variables,
  until: number,
): Promise<Answers[Name]> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await send(server, name, variables);
    } catch (error) {
      if (!(error instanceof CliError) || !error.isTransient || Date.now() > until) throw error;
      if (attempt === 0) server.report(`${error.message} The request is repeated with the same key.`);
      await pause(pauseMs(attempt));
    }
  }
}

/** Sends any document. Throws for an answer without data, and for one with errors. */
export async function post(
  server: Server,
  body: { readonly query: string; readonly variables: Variables },
  { isOfUser = false, signal }: Pick<Way, "isOfUser" | "signal"> = {},
): Promise<Result> {
  traceRequest(server, body);
  const started = performance.now();
  let response: Response;
  let text: string;
  try {
    response = await fetch(server.url, {
      method: "POST",
      redirect: "manual",
      headers: { accept: "application/json", "content-type": "application/json", ...authorization(server) },
      body: JSON.stringify(body),
      signal: AbortSignal.any([AbortSignal.timeout(REQUEST_MS), ...(signal ? [signal] : [])]),
    });
    text = await response.text();
  } catch (error) {
    throw unreachable(server, error);
  }
  traceAnswer(server, response, `${Math.round(performance.now() - started)} ms`);
  return judge(server, response, { text, isOfUser });
}

function judge(
  server: Server,
  response: Response,
  { text, isOfUser }: { readonly text: string; readonly isOfUser: boolean },
): Result {
  const { status, headers } = response;
  const id = headers.get("x-request-id");
  const whole = (message: string) =>
    `${message.replace(/[.?!]?$/, (end) => end || ".")}${id === null ? "" : ` Request ${safe(id)}.`}`;
  if (status >= 300 && status < 400)
    throw new CliError(
      EXIT.unreachable,
      whole(`${server.url} redirects to ${safe(headers.get("location") ?? "another address")}. Use that as --server`),
    );
  const { data, errors = [] } = parsed(text);
  const failure = failureOf(server, response, { data, errors }, isOfUser);
  // Documents of users have errors of their own.
  if (failure && !(isOfUser && failure.exitCode === EXIT.refused))
    throw new CliError(failure.exitCode, whole(failure.message), failure);
  return { data, errors };
}

function failureOf(
  server: Server,
  response: Response,
  { data, errors = [] }: Result,
  isOfUser: boolean,
): CliError | null {
  const { status, headers } = response;
  const [first] = errors;
  const message = errors.map((one) => safe(one.message)).join(" ");
  const code = first?.extensions?.code ?? "";
  if (status === 401)
    return new CliError(
      EXIT.forbidden,
      // The rest is about the headers of HTTP.
      `${message.split(" Send the token as")[0] || `${server.url} refuses the token with status 401.`} Store a token that is valid: ostler login`,
    );
  if (status === 403 || FORBIDDEN_CODES.has(code))
    return new CliError(EXIT.forbidden, message || `${server.url} refuses the token with status ${status}`);
  if (first) {
    if (OTHER_SCHEMA_CODES.has(code) && !isOfUser)
      return new CliError(
        EXIT.unreachable,
        `${server.url} has an older or newer schema than this program, or is not Ostler: ${message}`,
      );
    if (TRANSIENT_CODES.has(code) || TRANSIENT_STATUS.has(status))
      return new CliError(EXIT.unreachable, message, { isTransient: true });
    if (code === "INTERNAL") return new CliError(EXIT.failed, message);
    return status === 421 ? new CliError(EXIT.unreachable, message) : new CliError(EXIT.refused, message);
  }
  if (data !== undefined && data !== null) return null;
  const type = headers.get("content-type") ?? "no content type";
  return TRANSIENT_STATUS.has(status)
    ? new CliError(EXIT.unreachable, `${server.url} answers with status ${status}`, { isTransient: true })
    : new CliError(
        EXIT.unreachable,
        `${server.url} is not Ostler: it answers with status ${status} and ${safe(type)}. Check --server`,
      );
}

function parsed(text: string): Result {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

function unreachable({ url }: Server, error: unknown): CliError {
  const why = error instanceof Error && error.name === "TimeoutError" ? "no answer in time" : safe(messageOf(error));
  return new CliError(
    EXIT.unreachable,
    `${url} cannot be reached: ${why}. Start the service, or give its address with --server or OSTLER_URL.`,
    { isTransient: true },
  );
}

export function authorization({ token }: Pick<Server, "token">): Readonly<Record<string, string>> {
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

/** An item of a stream; all fields depend on its type. */
export interface StreamItem {
  readonly __typename?: string;
  readonly cursor?: string;
  readonly code?: string;
  readonly snapshotComplete?: boolean;
}

/** Where a stream continues after a loss. `createChangeMap` of the client is one. */
export interface Position {
  begin(): { readonly after: string | null; readonly snapshot: boolean };
  take(item: StreamItem): void;
  /** Throws if the stream cannot continue. */
  lost(): void;
}

/** A position for streams of lines, whose items are shown once. A snapshot begins again if it is cut. */
export function linePosition({
  after = null,
  snapshot = false,
  onBegin = () => {},
}: { readonly after?: string | null; readonly snapshot?: boolean; readonly onBegin?: () => void } = {}): Position {
  let cursor = after;
  let isWhole = !snapshot;
  return {
    begin() {
      if (!isWhole) onBegin();
      return isWhole ? { after: cursor, snapshot: false } : { after: null, snapshot: true };
    },
    take({ code, snapshotComplete, cursor: reached }) {
      if (code !== undefined) {
        if (code === "CURSOR_EXPIRED" || code === "TOO_SLOW") [isWhole, cursor] = [!snapshot, null];
        return;
      }
      if (snapshotComplete === true) isWhole = true;
      if (isWhole && reached !== undefined) cursor = reached;
    },
    lost() {},
  };
}

interface Way {
  readonly position: Position;
  readonly signal?: AbortSignal | undefined;
  /** Whether to wait for a service that does not answer at all; else the first failure ends the stream. */
  readonly isPatient?: boolean;
  /** Whether the document is the user's, who may have made a mistake in it. */
  readonly isOfUser?: boolean;
}

/** The items of a stream until the service completes it. Continues after each loss of the connection. */
export async function* follow<Name extends keyof Answers & keyof typeof REQUESTS>(
  server: Server,
  name: Name,
  { variables, ...way }: Way & { readonly variables: Variables },
): AsyncGenerator<Answers[Name] extends { readonly item: infer Item } ? Item : never> {
  for await (const { item } of followDocument(server, { query: REQUESTS[name], variables }, way)) yield item as never;
}

/** The data of a subscription, as `follow` has its items. */
export async function* followDocument(
  server: Server,
  { query, variables }: { readonly query: string; readonly variables: Variables },
  { position, signal, isPatient = false, isOfUser = false }: Way,
): AsyncGenerator<Readonly<Record<string, StreamItem>>> {
  let lostSince: number | null = null;
  let isReported = false;
  let hasConnected = false;
  for (let attempt = 0; ; attempt += 1) {
    let isReset = false;
    try {
      const body = { query, variables: { ...variables, ...position.begin() } };
      const onOpen = () => void (hasConnected = true);
      for await (const data of events(server, body, { signal, onOpen, isOfUser })) {
        const [item = {}] = Object.values(data);
        if (isReported) server.report(`${server.url} answers again.`);
        [lostSince, isReported, attempt, isReset] = [null, false, 0, item.code !== undefined];
        position.take(item);
        if (item.code === "CURSOR_EXPIRED" || item.code === "TOO_SLOW")
          server.report("The service no longer has what happened meanwhile. Some lines are missing.");
        if (!isReset) yield data;
      }
      if (!isReset) return;
    } catch (error) {
      if (signal?.aborted || !(error instanceof CliError) || !error.isTransient) throw error;
      if (!isPatient && !hasConnected) throw error;
      lostSince ??= Date.now();
      if (!isReported && Date.now() - lostSince > OUTAGE_MS) {
        isReported = true;
        const since = durationText((Date.now() - lostSince) / 1000);
        server.report(`${server.url} has not answered for ${since}. The command continues when it does.`);
      }
    }
    position.lost();
    await pause(pauseMs(attempt), undefined, signal ? { signal } : {});
  }
}

/** The data of one subscription, over one connection. Throws a transient error when the connection is lost. */
async function* events(
  server: Server,
  body: { readonly query: string; readonly variables: Variables },
  { signal, onOpen, isOfUser = false }: Pick<Way, "signal" | "isOfUser"> & { readonly onOpen: () => void },
): AsyncGenerator<Readonly<Record<string, StreamItem>>> {
  traceRequest(server, body);
  const { createClient } = await import("./event-client.ts");
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  // The client of graphql-sse replaces what its fetch throws.
  let failure: CliError | null = null;
  const client = createClient({
    url: server.url,
    headers: { ...authorization(server) },
    retryAttempts: 0,
    fetchFn: async (url: string, options: RequestInit) => {
      const signals = [options.signal, signal, silence.signal].flatMap((one) => (one ? [one] : []));
      try {
        const response = await fetch(url, { ...options, redirect: "manual", signal: AbortSignal.any(signals) });
        if (response.ok && response.headers.get("content-type")?.startsWith("text/event-stream")) {
          onOpen();
          traceAnswer(server, response, "stream");
          return response;
        }
        // Answers of other kinds are errors: they are judged like those of queries.
        const result = judge(server, response, { text: await response.text(), isOfUser });
        const what = `${server.url} does not answer with a stream. Check --server.`;
        throw failureOf(server, response, result, isOfUser) ?? new CliError(EXIT.unreachable, what);
      } catch (error) {
        failure = error instanceof CliError ? error : unreachable(server, error);
        throw failure;
      }
    },
  });
  try {
    const results = client.iterate<Record<string, StreamItem>>({ query: body.query, variables: { ...body.variables } });
    for await (const { data, errors } of results) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const flaw =
        errors && failureOf(server, new Response(), { data, errors: errors as readonly GraphqlError[] }, isOfUser);
      if (flaw) throw flaw;
      if (data) yield data;
    }
  } catch (error) {
    throw failure ?? (error instanceof CliError ? error : unreachable(server, error));
  } finally {
    clearTimeout(timer);
    client.dispose();
  }
}

function pauseMs(attempt: number): number {
  return Math.min(PAUSE_MS.longest, PAUSE_MS.first * 2 ** Math.min(attempt, 10)) * (0.5 + Math.random() / 2);
}

const SECRET = /password|secret|token|userdata|private|credential/i;

function traceRequest({ trace, url }: Server, body: { readonly query: string; readonly variables: Variables }): void {
  if (!trace) return;
  const hide = (name: string, value: unknown): unknown => (SECRET.test(name) && value !== null ? "********" : value);
  const variables = JSON.parse(JSON.stringify(body.variables, hide)) as unknown;
  trace(`# POST ${url}\n${body.query.trim()}\n# variables: ${safeJson(variables)}`);
}

function traceAnswer({ trace }: Server, { status, headers }: Response, what: string): void {
  trace?.(`# ${status}, ${what}, request ${headers.get("x-request-id") ?? "without ID"}`);
}
