/**
 * Records of a chaos run, as the arena writes and the checker reads them: JSON lines, one file per source, all in the
 * folder of the run. They are written by processes without faults. This file uses neither code nor types of the
 * service.
 *
 * `t` is the computer's monotonic clock in milliseconds, which is the same for all processes and unaffected by clock
 * jumps; `run.json` gives the wall clock at one moment of it. A request without an answer, or with `ok: false`, may
 * have been carried out or not.
 */
import { createReadStream, createWriteStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";

/** Files of a run's folder and the records in each. */
export interface Files {
  /** Requests of clients and their answers. */
  readonly requests: Request | Answer;
  /** Changes of accounts, their roles and tokens. */
  readonly access: AccessChange | AccessChanged;
  /** Streams of subscribers: opened, items received, ended. */
  readonly streams: Open | Item | Mark | End;
  /** Calls of drivers, as seen by the machines. */
  readonly driver: Enter | Leave | Power;
  readonly callbacks: Callback;
  /** Faults, and phases of the run. */
  readonly nemesis: Nemesis | Phase;
  readonly replicas: Replica | Sample;
  /** The database at the end. */
  readonly final: Row;
}

interface Stamped {
  /** Milliseconds of the monotonic clock. */
  readonly t: number;
}

/** Written before it is sent. */
export interface Request extends Stamped {
  readonly k: "request";
  /** Unique in the run. A repeat of an earlier request, with the same key and input, has its own ID. */
  readonly id: string;
  readonly client: string;
  readonly replica: string;
  /** The mutation: commissionNodes, abort, setMaintenance, … */
  readonly verb: string;
  /** As sent, including the idempotency key. */
  readonly input: unknown;
  readonly idempotencyKey: string | null;
  /** Names of the nodes in the request; those of the operation if it names one. */
  readonly nodes: readonly string[];
  /** The account that sent it, and its token. Absent or null: the configured token. */
  readonly account?: string | null;
  readonly tokenId?: string | null;
}

/** A change of an account, its roles or tokens. Written before it is sent; a repeat has its own ID. */
export interface AccessChange extends Stamped {
  readonly k: "change";
  /** Unique in the run, and the ID of the request in the audit. */
  readonly id: string;
  readonly mutation: "createAccount" | "setRoles" | "createToken" | "revokeTokens";
  readonly account: string;
}

/** The change was answered. */
export interface AccessChanged extends Stamped {
  readonly k: "changed";
  readonly id: string;
}

/** A refusal by the service, of the whole request or of one node. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
}

export interface NodeAnswer {
  readonly node: string;
  readonly accepted: boolean;
  readonly runId: string | null;
  readonly refusal: Refusal | null;
  /** Effect of an accepted abort. PENDING: after the current step. */
  readonly effect: "BEFORE_START" | "NOW" | "PENDING" | null;
}

export type Answer = Stamped & { readonly k: "answer"; readonly id: string } & (
    | {
        readonly ok: true;
        /** The operation that was started, or returned again; null for verbs that start none and for refusals. */
        readonly operationId: string | null;
        readonly replayed: boolean | null;
        /** Refusals of the whole request. Empty: it was carried out. */
        readonly refusals: readonly Refusal[];
        readonly results: readonly NodeAnswer[];
      }
    /**
     * A missing or incomplete answer, or an error instead of data: the request may have been carried out or not.
     * `status`: HTTP status, if there was one. `denied`: the code with which the caller was refused; then nothing was
     * carried out.
     */
    | {
        readonly ok: false;
        readonly error: string;
        readonly status: number | null;
        readonly denied?: "FORBIDDEN" | "UNAUTHENTICATED";
      }
  );

/** A subscription was sent. Each connection of a subscriber is a separate stream. */
export interface Open extends Stamped {
  readonly k: "open";
  /** Unique in the run. */
  readonly stream: string;
  /** The subscriber. Each of its streams continues where the one before ended. */
  readonly client: string;
  readonly replica: string;
  readonly transport: "ws" | "sse";
  /** Cursor after which the stream continues; null: it starts now. */
  readonly after: string | null;
  /** Position of the item or bookmark with that cursor. */
  readonly afterPosition: number | null;
  /** As sent; null: no filter. */
  readonly filter: {
    readonly ids?: readonly string[];
    readonly labels?: readonly { readonly key: string; readonly value: string }[];
  } | null;
  /** Whether this reader stalls on purpose; then its silences do not count. */
  readonly stalls: boolean;
  /** The account that opened it, and its token. Absent or null: the configured token. */
  readonly account?: string | null;
  readonly tokenId?: string | null;
}

/** A transition received by a stream. */
export interface Item extends Stamped {
  readonly k: "item";
  readonly stream: string;
  readonly position: number;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly sequence: number;
  readonly from: string | null;
  readonly to: string | null;
  readonly event: string;
  /** Absent if the stream did not request it. */
  readonly operationId?: string | null;
  readonly runId?: string | null;
  readonly step: string | null;
  readonly actor: string;
  readonly reason: string | null;
  /** As sent by the service, ISO 8601. */
  readonly at: string;
}

/** A bookmark: everything up to `position` has been delivered. */
export interface Mark extends Stamped {
  readonly k: "mark";
  readonly stream: string;
  readonly position: number;
  readonly caughtUp: boolean;
}

/**
 * End of a stream: the code of a StreamReset, COMPLETE, LEFT (the reader disconnected), DENIED (the caller was refused)
 * or LOST (the connection broke), both with the reason.
 */
export interface End extends Stamped {
  readonly k: "end";
  readonly stream: string;
  readonly code: string;
  readonly detail: string | null;
}

/** A step's function was called, as reported by its machine. */
export interface Enter extends Stamped {
  readonly k: "enter";
  /** Unique in the run. */
  readonly entry: string;
  readonly replica: string;
  readonly pid: number;
  /** Parent process: the replica's, if drivers run in separate processes. */
  readonly parent: number;
  readonly node: string;
  readonly attemptKey: string;
  readonly phase: string;
  readonly step: string;
  readonly part: "run" | "verify" | "abort";
  /** Whether an earlier wait left a memo. */
  readonly memo: boolean;
  /** Whether a callback ended the wait. */
  readonly callback: boolean;
  /**
   * Declared by the step: whether it may be entered again after a crash without a memo, and how it may be interrupted.
   */
  readonly idempotent: boolean;
  readonly interruptible: "ALWAYS" | "AT_BOUNDARY" | "NEVER";
  /** Deadline of the engine, ISO 8601. */
  readonly deadline: string;
  /** Declared timeout of the step. */
  readonly timeoutSeconds: number;
  /** Callback path, which differs for every entry of a run. With the run's secret it shows the number of the entry. */
  readonly path: string;
}

/**
 * End of an entry, as the machine decided it: `done`, `wait`, `retry` (a retryable failure), `fail` (a final one),
 * `cut` (its signal fired), `throw`, `junk`, `hang`, `block`, `exit` (ordered misbehaviour), or `lost` (its process or
 * its connection ended).
 */
export interface Leave extends Stamped {
  readonly k: "leave";
  readonly entry: string;
  readonly how: "done" | "wait" | "retry" | "fail" | "cut" | "throw" | "junk" | "hang" | "block" | "exit" | "lost";
  /** For a wait: seconds, and whether a callback may end it. For a failure: its reason. */
  readonly detail: string | null;
}

/** The power of a machine was read or set. */
export interface Power extends Stamped {
  readonly k: "power";
  readonly entry: string | null;
  readonly replica: string;
  readonly pid: number;
  readonly parent: number;
  readonly node: string;
  /** `read`, `set ON`, `set OFF`, `set REBOOT`, `set SOFT_OFF`, `boot PXE`, … */
  readonly what: string;
  readonly attemptKey: string | null;
  /** Reason of a failure; null: the call succeeded. */
  readonly failure: string | null;
}

/** A callback, genuine or forged. Recorded when it was answered or failed. */
export interface Callback extends Stamped {
  readonly k: "callback";
  readonly id: string;
  readonly replica: string;
  readonly node: string;
  readonly attemptKey: string;
  readonly runId: string;
  /**
   * good: the first callback of its entry (repeated, as good, until it is answered). late: its path belongs to an entry
   * that was followed by others.
   */
  readonly kind: "good" | "duplicate" | "late" | "forged";
  readonly sent: number;
  readonly path: string;
  /** HTTP status: 202 accepted, 409 duplicate or late, 404 unexpected; null: no answer. */
  readonly status: number | null;
}

/**
 * Kinds of faults. On a replica: `kill` (SIGKILL), `freeze` (SIGSTOP until its end), `term` (SIGTERM), `clock` (its
 * wall clock jumps). On `postgres`: `postgres-restart` (immediate stop and start), `backends` (connections are
 * terminated), `disk-full`. On a connection, with the target `<replica>/database` or `<replica>/clients`: `drop` (cut),
 * `delay`, `half-open` (open without passing data). On a client: `stall` (a reader stops reading). On nodes: `driver`
 * (misbehaviour is ordered).
 */
export const NEMESES = [
  "kill",
  "freeze",
  "term",
  "clock",
  "postgres-restart",
  "backends",
  "disk-full",
  "drop",
  "delay",
  "half-open",
  "stall",
  "driver",
] as const;

/** A fault begins or ends. `begin` is recorded before it, `end` after it; a momentary fault has both. */
export interface Nemesis extends Stamped {
  readonly k: "nemesis";
  readonly id: string;
  readonly what: (typeof NEMESES)[number];
  /** A replica, `postgres`, a proxy, a node, … */
  readonly target: string;
  readonly phase: "begin" | "end";
  readonly detail: string | null;
}

export interface Phase extends Stamped {
  readonly k: "phase";
  readonly what: "warm-up" | "storm" | "quiet" | "settled" | "over";
  readonly detail: string | null;
}

export interface Replica extends Stamped {
  readonly k: "replica";
  readonly name: string;
  readonly pid: number;
  /** killed: SIGKILL was sent. terminated: SIGTERM was sent. ended: the process ended for any reason. */
  readonly what: "started" | "ready" | "killed" | "terminated" | "ended";
  readonly code: number | null;
  readonly signal: string | null;
  /** Milliseconds from `terminated` to `ended`; null for other records. */
  readonly tookMs: number | null;
}

export interface Sample extends Stamped {
  readonly k: "sample";
  /** waited: the time in which the process was ready to run and had no CPU, since its start. */
  readonly what: "memory" | "handles" | "waited";
  /** waited also has `proxies` and `watchers`, and `postgres`: the longest wait of one of its processes. */
  readonly replica: string;
  readonly pid: number;
  /** Resident bytes, open file descriptors, or milliseconds. */
  readonly value: number;
}

/**
 * A row of the database at the end, with the names of its columns, times as ISO 8601 and JSON as JSON. `table` is
 * clusters, nodes, conditions (values before each change of a node: node_id, at, presence, fault, in_maintenance,
 * is_protected, is_retired), audit, operations, runs, plans (hash and steps: interface, name, driver, phase, …),
 * attempts, transitions, rejected_callbacks, lifecycle_edges, feed_position or step_log (per run: run_id, lines, first,
 * last).
 */
export interface Row {
  readonly k: "row";
  readonly table: string;
  readonly row: Readonly<Record<string, unknown>>;
}

/** `run.json`: parameters of the run. */
export interface Run {
  readonly seed: number;
  readonly nodes: number;
  readonly streams: number;
  readonly replicas: readonly string[];
  readonly nemeses: readonly string[];
  /** Wall clock in milliseconds since 1970 at the moment `t`. */
  readonly wallMs: number;
  readonly t: number;
  /** Sentence about work that did not end in the quiet phase; null if all work ended. */
  readonly unsettled: string | null;
}

/** The monotonic clock, in milliseconds. */
export function clock(): number {
  return Math.round(Number(process.hrtime.bigint() / 1000n)) / 1000;
}

export interface Recorder<Kind extends keyof Files> {
  write(record: Files[Kind]): void;
  /** Resolves when everything has been written to the file. */
  close(): Promise<void>;
}

export function record<Kind extends keyof Files>(folder: string, file: Kind): Recorder<Kind> {
  const stream = createWriteStream(fileOf(folder, file), { flags: "a" });
  return {
    write: (one) => void stream.write(`${JSON.stringify(one)}\n`),
    close: () => new Promise((done, reject) => void stream.once("error", reject).end(done)),
  };
}

/** The records of a file in the order of writing; none if the file does not exist. */
export async function* readRecords<Kind extends keyof Files>(folder: string, file: Kind): AsyncGenerator<Files[Kind]> {
  const path = fileOf(folder, file);
  if (!existsSync(path)) return;
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity })) {
    if (line !== "") yield JSON.parse(line) as Files[Kind];
  }
}

function fileOf(folder: string, file: keyof Files): string {
  return join(folder, `${file}.jsonl`);
}
