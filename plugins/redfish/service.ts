/**
 * A Redfish service for the duration of one call of the driver: resources, changes and actions, with login, ETags, and
 * errors that name the BMC and what it was asked to do.
 */
import { Readable } from "node:stream";
import type { DriverMemory, Json } from "../../src/drivers/driver.ts";
import { connect, isAnsweredElsewhere, isAway, isRefusal } from "./connection.ts";
import type { Connection, HttpAnswer, HttpRequest, RedfishCall } from "./connection.ts";
import { RedfishError, onlyFailed } from "./error.ts";
import { pause } from "./poll.ts";
import { conditionsOf, holds, isAboutCondition, isNotNow, remedyOf } from "./refusal.ts";
import { messageKeys, messagesOf, reportsError, resourceOf, stateOf } from "./messages.ts";
import { at, boolean, hasContent, isExpanded, items, link, number, text } from "./resource.ts";
import type { Resource } from "./resource.ts";
import { authenticate } from "./session.ts";
import type { Authenticator } from "./session.ts";
import { bmcName } from "../bmc-settings.ts";

/** The answer to a change or an action. */
export interface Outcome {
  /** Whether the BMC has not ended it with the answer. */
  readonly isRunning: boolean;
  /** Where the BMC has made the change. */
  readonly path: string;
  readonly body: Resource;
  /** Where the BMC reports the progress of a task, on its own address; empty if it has finished. */
  readonly tasks: string[];
}

interface Change {
  readonly method: "PATCH" | "POST";
  readonly path: string;
  readonly body: Resource;
  readonly task: string;
}

/** How a refused change can be sent again. */
export interface IfRefused {
  /** Values of members that some BMCs require. */
  readonly spare?: Resource;
  /** Members that some BMCs do not take. */
  readonly optional?: readonly string[];
  /** Whether the machine already is as asked. Default: for a PATCH, whether the resource has the values. */
  readonly isDone?: () => Promise<boolean>;
  /** Limit of each request. Default: that of the connection. */
  readonly seconds?: number;
}

export interface Upload {
  readonly body: Readable;
  /** In bytes. */
  readonly length: number;
  readonly type: string;
  readonly task: string;
  readonly seconds: number;
}

const SERVICE_ROOT = "/redfish/v1/";
/** Logins for one request: the session that another process has opened may have ended too. */
const LOGINS_MAX = 2;
/** For a change that the BMC cannot make yet: the self-test of a machine takes minutes. */
const NOT_NOW_SECONDS = 300;
const NOT_NOW_WAIT_MAX = 15;
/** Repetitions of a change after errors of the BMC itself. */
const FAULTS_MAX = 2;
/** Time that is left of a call for the last request. */
const LAST_TRY_MS = 2_000;
const MEMBERS_MAX = 10_000;
const PAGES_MAX = 200;
const PART_TRIES = 2;
const SILENT_PARTS_MAX = 4;
const READS_AT_ONCE = 4;

export interface Unread {
  readonly reason: string;
  /** The BMC says that it does not have it. */
  readonly isMissing: boolean;
}

interface Listed {
  /** Each once. */
  readonly members: readonly Resource[];
  /** As the BMC counts them. */
  readonly count: number;
}

interface ServiceOptions {
  /** Resources that cannot be read are left out and listed in `unread`, as long as the BMC answers. */
  readonly isPartial: boolean;
}

const WHOLE: ServiceOptions = { isPartial: false };

export class RedfishService {
  readonly #call: RedfishCall;
  readonly #connection: Connection;
  readonly #memory: DriverMemory | undefined;
  #root: Resource | undefined;
  #authenticator: Authenticator | undefined;
  /** The ETags of each resource that was read, of the header and of the body. */
  readonly #etags = new Map<string, readonly string[]>();
  readonly #unread = new Map<string, Unread>();
  readonly #isPartial: boolean;
  #silentParts = 0;
  #refusesExpand = false;

  constructor(call: RedfishCall, memory: DriverMemory | undefined, { isPartial }: ServiceOptions = WHOLE) {
    this.#call = call;
    this.#connection = connect(call);
    this.#memory = memory;
    this.#isPartial = isPartial;
  }

  /** The BMC's address and port, for messages. */
  get bmc(): string {
    return bmcName(this.#call.settings);
  }

  /** Resources that others link to, and that could not be read, by their paths. */
  get unread(): ReadonlyMap<string, Unread> {
    return this.#unread;
  }

  /** Notes a resource as unread whose answer lacks what it must have. */
  miss(path: string, reason: string): void {
    this.#unread.set(path, { reason, isMissing: false });
  }

  /** Whether the machine may have been changed through this service. */
  get hasChanged(): boolean {
    return this.#connection.hasChanged;
  }

  /** A result of an earlier call, kept for a name. */
  async recall(name: string): Promise<Json | undefined> {
    return this.#memory?.get(`${name} of ${this.bmc}`);
  }

  async remember(name: string, value: Json): Promise<void> {
    await this.#memory?.set(`${name} of ${this.bmc}`, value);
  }

  async close(): Promise<void> {
    await this.#authenticator?.close();
    await this.#connection.close();
  }

  /** The service root, which needs no login. */
  async root(): Promise<Resource> {
    if (this.#root) return this.#root;
    const task = "report its service root";
    const answer = await this.#connection.send({ method: "GET", path: SERVICE_ROOT, task });
    if (answer.status === 401 || answer.status === 403) return this.#readRootWithLogin(task);
    if (answer.status !== 200) throw this.#refusal(task, answer);
    this.#root = this.#parsed(task, answer);
    return this.#root;
  }

  /** Reads a resource. `what`: completes "report its …", in messages. */
  async get(path: string, what: string): Promise<Resource> {
    const task = `report its ${what}`;
    const answer = await this.#send({ method: "GET", path, task });
    if (answer.status !== 200) throw this.#refusal(task, answer);
    const body = this.#parsed(task, answer);
    if ("error" in body && pathOf(body) === "") throw this.#refusal(task, answer);
    this.#etags.set(
      path,
      [answer.header("etag"), text(body, "@odata.etag")].filter((etag) => etag !== undefined),
    );
    return body;
  }

  /** Reads a resource that may be missing. A partial reading leaves out what cannot be read for other reasons, too. */
  async find(path: string | undefined, what: string): Promise<Resource | undefined> {
    if (path === undefined) return undefined;
    for (let tries = 1; ; tries += 1) {
      try {
        const found = await this.get(path, what);
        if (hasContent(found)) return found;
        this.miss(path, "The BMC reports no value of it.");
        return undefined;
      } catch (error) {
        if (!(error instanceof RedfishError)) throw error;
        const { status, kind, retryable } = error;
        const isMissing = MISSING.has(status ?? 0);
        if (!isMissing && !this.#isPartial) throw error;
        // A BMC that restarts lacks no part: then the whole is read later.
        if (!isMissing && error.away) await this.checkLogin();
        if (!isMissing && retryable && tries < PART_TRIES) continue;
        if (!isMissing && (kind === "TIMEOUT" || kind === "UNREACHABLE")) this.#silentParts += 1;
        if (kind === "AUTHENTICATION" || this.#silentParts > SILENT_PARTS_MAX) throw error;
        const reason = isMissing ? `The BMC links to it and does not have it (${status}).` : error.message;
        this.#unread.set(path, { reason, isMissing });
        return undefined;
      }
    }
  }

  /** The members of a collection, over all its pages; none if it is missing. */
  async members(path: string | undefined, what: string): Promise<Resource[]> {
    if (path === undefined) return [];
    const expanded = (await this.#canExpand()) ? await this.#pages(`${path}?$expand=.($levels=1)`, what) : undefined;
    const isWhole = expanded && (expanded.members.length >= expanded.count || this.#unread.has(path));
    const { members, count } = (isWhole ? expanded : await this.#pages(path, what)) ?? { members: [], count: 0 };
    if (members.length < count && !this.#unread.has(path))
      this.miss(path, `The BMC counts ${count} members, and lists ${members.length}.`);
    // A BMC can leave members unexpanded, or without their values.
    const read = async (item: Resource) => (isExpanded(item) ? item : this.find(text(item, "@odata.id"), what));
    return (await inTurns(members, read)).filter((item) => item !== undefined);
  }

  /** Reads resources; missing ones are left out. */
  async all(paths: readonly string[], what: string): Promise<Resource[]> {
    return (await inTurns(paths, (path) => this.find(path, what))).filter((item) => item !== undefined);
  }

  /** Changes a resource, on the condition of its ETag if it has one. */
  async patch(path: string, body: Resource, task: string, refused: IfRefused = {}): Promise<Outcome> {
    const isDone = async () => holds(await this.get(path, "resource after a refusal"), body);
    return this.#change({ method: "PATCH", path, body, task }, { isDone, ...refused });
  }

  async post(path: string, body: Resource, task: string, refused: IfRefused = {}): Promise<Outcome> {
    return this.#change({ method: "POST", path, body, task }, refused);
  }

  /** Sends a change, and after a refusal again as its messages say; the last refusal is reported. */
  async #change(given: Change, refused: IfRefused): Promise<Outcome> {
    const { spare = {}, optional = [], isDone, seconds } = refused;
    const end = Math.min(this.#call.deadline.getTime() - LAST_TRY_MS, Date.now() + NOT_NOW_SECONDS * 1000);
    const tried = new Set<string>();
    let faults = 0;
    let change = given;
    for (let wait = 1; ;) {
      tried.add(JSON.stringify([change.path, change.body]));
      const answer = await this.#sendChange(change, seconds);
      const isFault = change.method === "PATCH" && isInternal(answer);
      if (!isFault && (answer.status < 300 || !isRefusal(answer))) return this.#outcome(change, answer);
      if (isFault) faults += 1;
      const mayMove = change.method === "PATCH" && change.path === given.path;
      const repeat = isFault && faults <= FAULTS_MAX ? ({ kind: "WAIT" } as const) : undefined;
      const remedy = remedyOf(answer, { ...change, spare, optional, mayMove }) ?? repeat;
      const mayWait = remedy?.kind === "WAIT" && Date.now() + wait * 1000 < end;
      if (mayWait) await pause(wait, this.#call.signal);
      const isAsAsked = !NO_STATE.has(answer.status) && (await isDone?.().catch(onlyFailed));
      if (isAsAsked === true) return { isRunning: false, path: change.path, body: {}, tasks: [] };
      wait = Math.min(wait * 2, NOT_NOW_WAIT_MAX);
      if (mayWait) continue;
      if (remedy?.kind === "BODY") change = { ...change, body: remedy.body };
      if (remedy?.kind === "PATH") change = { ...change, path: remedy.path ?? (await this.#pendingOf(change.path)) };
      if (tried.has(JSON.stringify([change.path, change.body]))) return this.#outcome(change, answer);
    }
  }

  async #sendChange({ method, path, body, task }: Change, seconds: number | undefined): Promise<HttpAnswer> {
    const request = { method, path, body: JSON.stringify(body), task, ...(seconds !== undefined && { seconds }) };
    const isPatch = method === "PATCH";
    if (isPatch && !this.#etags.has(path)) await this.find(path, "resource before a change");
    // Some BMCs require a condition of actions too: that of their resource.
    const resource = isPatch ? path : (path.split("/Actions/")[0] ?? path);
    let conditions = [isPatch ? this.#etags.get(path)?.[0] : undefined];
    for (let tries = 0; ; tries += 1) {
      const etag = conditions[tries];
      const headers = { ...JSON_BODY, ...(etag !== undefined && { "if-match": etag }) };
      const answer = await this.#send({ ...request, headers });
      const isStale = isAboutCondition(answer);
      if (isStale && tries === 0) {
        await this.get(resource, "resource before a change");
        conditions = [etag, ...conditionsOf(this.#etags.get(resource) ?? [])];
      }
      if (!isStale || tries === conditions.length - 1) return answer;
    }
  }

  /** Where a resource has its settings for the next start; the resource itself if it has none. */
  async #pendingOf(path: string): Promise<string> {
    const resource = await this.find(path, "resource before a change").catch(onlyFailed);
    return link(at(resource, "@Redfish.Settings"), "SettingsObject") ?? path;
  }

  /** Sends a body that can be read once, so the login is checked before. */
  async upload(path: string, { body, length, type, task, seconds }: Upload): Promise<Outcome> {
    await this.checkLogin();
    const headers = { "content-type": type, "content-length": String(length) };
    return this.#outcome({ path, task }, await this.#send({ method: "POST", path, headers, body, task, seconds }));
  }

  /** Throws AUTHENTICATION if the BMC refuses the login. */
  async checkLogin(): Promise<void> {
    await this.get(link(await this.root(), "Systems") ?? `${SERVICE_ROOT}Systems`, "list of systems");
  }

  async remove(path: string, task: string): Promise<Outcome> {
    return this.#outcome({ path, task }, await this.#send({ method: "DELETE", path, task }));
  }

  /** Asks for a resource, and returns whatever answers. */
  async ask(path: string, what: string): Promise<HttpAnswer> {
    return this.#send({ method: "GET", path, task: `report its ${what}` });
  }

  /** Sends an authenticated request, again after a login if the BMC refuses the session. */
  async #send(request: HttpRequest): Promise<HttpAnswer> {
    const authenticator = this.#login();
    let credentials = await authenticator.current();
    for (let logins = 0; ; logins += 1) {
      const headers = { ...request.headers, ...credentials };
      const answer = await this.#connection.send({ ...request, headers });
      // A body that has been read cannot be sent again.
      if (!lacksSession(answer) || logins === LOGINS_MAX || request.body instanceof Readable) return answer;
      credentials = await authenticator.renew(credentials);
    }
  }

  #login(): Authenticator {
    this.#authenticator ??= this.#authenticateAt(async () => link(at(await this.root(), "Links"), "Sessions"));
    return this.#authenticator;
  }

  #authenticateAt(sessions: () => Promise<string | undefined>): Authenticator {
    return authenticate(this.#call, this.#connection, sessions, this.#memory);
  }

  /** Some BMCs require a login for the service root, against the specification (DSP0266, 13.3.3). */
  async #readRootWithLogin(task: string): Promise<Resource> {
    this.#authenticator = this.#authenticateAt(() => Promise.resolve(`${SERVICE_ROOT}SessionService/Sessions`));
    const answer = await this.#send({ method: "GET", path: SERVICE_ROOT, task });
    if (answer.status !== 200) throw this.#refusal(task, answer);
    this.#root = this.#parsed(task, answer);
    return this.#root;
  }

  async #canExpand(): Promise<boolean> {
    if (this.#refusesExpand) return false;
    const expand = at(await this.root(), "ProtocolFeaturesSupported", "ExpandQuery");
    return boolean(expand, "NoLinks") === true && (number(expand, "MaxLevels") ?? 1) >= 1;
  }

  /** Undefined if the BMC does not take the path: some announce `$expand`, and then refuse it or do not answer. */
  async #pages(path: string, what: string): Promise<Listed | undefined> {
    const isExpand = path.includes("$expand");
    const members: Resource[] = [];
    const known = new Set<string>();
    const seen = new Set<string>();
    let count = 0;
    for (let next: string | undefined = path; next !== undefined && !seen.has(next);) {
      seen.add(next);
      const page: Resource | undefined = await (isExpand
        ? this.get(next, what).catch(onlyFailed)
        : this.find(next, what));
      if (page === undefined && isExpand) this.#refusesExpand = true;
      if (page === undefined) return isExpand || members.length === 0 ? undefined : { members, count };
      count = Math.max(count, number(page, "Members@odata.count") ?? 0);
      const listed = items(page, "Members").filter((one) => hasContent(one) || pathOf(one) !== "");
      const found = listed.filter((one) => !known.has(pathOf(one)));
      members.push(...found);
      for (const one of found.filter((each) => pathOf(each) !== "")) known.add(pathOf(one));
      if (members.length > MEMBERS_MAX || seen.size > PAGES_MAX) {
        const flaw = `lists a collection without end, more than ${MEMBERS_MAX} members or ${PAGES_MAX} pages`;
        if (!this.#isPartial) throw this.#flaw(`${flaw}: ${path}`);
        this.miss(path.split("?")[0] ?? path, `The BMC ${flaw}.`);
        return { members, count };
      }
      // A link to a page that was read leads to the same members.
      if (listed.length > 0 && found.length === 0) break;
      next = text(page, "Members@odata.nextLink") ?? text(page, "@odata.nextLink");
    }
    return { members, count };
  }

  #outcome({ path, task }: Pick<Change, "path" | "task">, answer: HttpAnswer): Outcome {
    const body = resourceOf(answer.body) ?? {};
    const isElsewhere = isAnsweredElsewhere(answer);
    if ((answer.status >= 300 && !isElsewhere) || reportsError(body)) {
      const { kind, retryable, status, message } = this.#refusal(task, answer);
      // A change that is refused for the moment has been asked for again already.
      const away = isAway(answer) && !this.#connection.hasActed;
      const effect = isRefusal(answer) ? "NONE" : "UNKNOWN";
      throw new RedfishError({ kind, retryable, message, effect, away, status: status ?? answer.status });
    }
    // A page is an answer of a web server, as of its login.
    if (!isElsewhere && answer.body.trimStart().startsWith("<"))
      throw this.#flaw(`was asked to ${task}, and its answer is a page: ${quoted(answer.body)}`, {
        effect: "UNKNOWN",
        status: answer.status,
      });
    // Some BMCs name the task in a message only, and some answer with the task, but not with status 202.
    const isAccepted = answer.status === 202 || isElsewhere || stateOf(body) !== undefined;
    const named = [answer.header("location"), text(body, "@odata.id"), text(body, "TaskMonitor")];
    const mentioned = messagesOf(body).flatMap((one) => one.match(/\/redfish\/v1\/[\w./-]*\w/g) ?? []);
    const certain = [...named, ...mentioned].filter((one) => one !== undefined && TASK_PATH.test(one));
    const tasks = [...(isAccepted ? named : []), ...certain].flatMap((one) => this.#ownPath(one) ?? []);
    return { isRunning: isAccepted || tasks.length > 0, path, body, tasks: [...new Set(tasks)] };
  }

  /** The path of a link on the BMC's own address: behind a gateway, a BMC can link to the address that it knows. */
  #ownPath(location: string | undefined): string | undefined {
    if (location === undefined || !URL.canParse(location, this.#connection.origin)) return undefined;
    const { pathname, search } = new URL(location, this.#connection.origin);
    return pathname + search;
  }

  #parsed(task: string, answer: HttpAnswer): Resource {
    const body = resourceOf(answer.body);
    if (body) return body;
    throw this.#flaw(`was asked to ${task}, and its answer is not a JSON object: ${quoted(answer.body)}`);
  }

  #flaw(what: string, change?: { readonly effect: "UNKNOWN"; readonly status: number }): RedfishError {
    const message = `BMC ${this.bmc} ${what}; restart the BMC.`;
    return new RedfishError({ kind: "OTHER", retryable: true, message, ...change });
  }

  #refusal(task: string, answer: HttpAnswer): RedfishError {
    const { status } = answer;
    const location = status < 400 ? answer.header("location") : undefined;
    const other = location === undefined ? answer.body.replace(/^\s*<[^]*/, "") : `it redirects to ${location}`;
    const body = resourceOf(answer.body) ?? {};
    const reason = messagesOf(body).join(" ") || other || `HTTP ${status}`;
    const message = `BMC ${this.bmc} was asked to ${task}, and refused (${status}): ${shortened(reason)}`;
    if (status === 401) return new RedfishError({ kind: "AUTHENTICATION", status, message });
    if (status === 403)
      return new RedfishError({ kind: "REFUSED", status, message: `${message} Check the role of the user.` });
    if (status === 405 || status === 501 || messageKeys(body).includes("ActionNotSupported"))
      return new RedfishError({ kind: "UNSUPPORTED", status, message });
    // Some BMCs that start answer 400 to a read, and say that they are not ready.
    const isEarly = status >= 400 && status < 500 && isNotNow(answer);
    const retryable = isEarly || status === 409 || status >= 500;
    const away = (isAway(answer) || isEarly) && !this.#connection.hasActed;
    return new RedfishError({ kind: "REFUSED", status, message, retryable, away });
  }
}

/** Whether an answer reports an error of the BMC itself, after which it may have made the change or not. */
function isInternal({ status, body }: HttpAnswer): boolean {
  return status === 500 || (status < 300 && reportsError(resourceOf(body) ?? {}));
}

/** Whether an answer says that the session has ended; some BMCs do so with another status than 401. */
function lacksSession({ status, body }: HttpAnswer): boolean {
  const keys = status === 400 || status === 403 ? messageKeys(resourceOf(body) ?? {}) : [];
  return status === 401 || keys.some((key) => key === "NoValidSession" || key === "SessionTerminated");
}

function pathOf(member: Resource): string {
  return text(member, "@odata.id") ?? "";
}

/** Reads each item, a few at a time, as BMCs answer slowly to many requests at once. */
async function inTurns<Item, Result>(all: readonly Item[], read: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  for (let index = 0; index < all.length; index += READS_AT_ONCE)
    results.push(...(await Promise.all(all.slice(index, index + READS_AT_ONCE).map(read))));
  return results;
}

/** Runs `work` with the Redfish service of a call's BMC. */
export async function withService<Result>(
  call: RedfishCall,
  memory: DriverMemory | undefined,
  work: (service: RedfishService) => Promise<Result>,
  options?: ServiceOptions,
): Promise<Result> {
  const service = new RedfishService(call, memory, options);
  try {
    return await work(service);
  } finally {
    await service.close();
  }
}

/** Statuses that say nothing about the state of the machine. */
const NO_STATE: ReadonlySet<number> = new Set([401, 403, 404, 429]);
const TASK_PATH = /\/(Tasks|TaskMonitors|Jobs)\/[^/]+\/?$/i;
const JSON_BODY = { "content-type": "application/json" };
const MISSING: ReadonlySet<number> = new Set([404, 405, 410, 501]);

function quoted(body: string): string {
  return body.trim() === "" ? "it is empty" : JSON.stringify(body.slice(0, 200));
}

function shortened(reason: string): string {
  const line = reason.replaceAll(/\s+/g, " ").trim();
  return line.length > 400 ? `${line.slice(0, 400)} …` : line;
}
