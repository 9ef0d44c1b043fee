/**
 * What the chaos arena writes down and the checker reads: JSON lines, a file a source, all in the run's folder. The process that writes
 * is a process that no nemesis touches. Knows nothing of the service: neither its code nor its types.
 *
 * `t` is the machine's monotonic clock in milliseconds, the same for all processes, and untouched by clock jumps; `run.json`
 * tells what the wall clock was at one such moment. What a request came to is known by its answer; a request without one, or
 * with `ok: false`, may have been carried out or not.
 */
import { createReadStream, createWriteStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";

/** Files of a run's folder, and the records that each holds. */
export interface Files {
  /** What clients asked and were answered. */
  readonly requests: Request | Answer;
  /** What subscribers opened, were told, and lost. */
  readonly streams: Open | Item | Mark | End;
  /** What the machines saw of drivers. */
  readonly driver: Enter | Leave | Power;
  readonly callbacks: Callback;
  /** What was done to the service, and the parts of the run. */
  readonly nemesis: Nemesis | Phase;
  readonly replicas: Replica | Sample;
  /** The database at the very end, read by SQL. */
  readonly final: Row;
}

interface Stamped {
  /** Milliseconds of the monotonic clock. */
  readonly t: number;
}

/** Written before it is sent. */
export interface Request extends Stamped {
  readonly k: "request";
  /** Unique in the run. A repeat of an earlier request, with the same key and input, has an id of its own. */
  readonly id: string;
  readonly client: string;
  readonly replica: string;
  /** The mutation: commissionNodes, abort, setMaintenance, … */
  readonly verb: string;
  /** As it was sent, the idempotency key included. */
  readonly input: unknown;
  readonly idempotencyKey: string | null;
  /** Names of the nodes that it asks for; those of the operation where it asks for one. */
  readonly nodes: readonly string[];
}

/** A refusal as the service words it: of the request as a whole, or of one node. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
}

export interface NodeAnswer {
  readonly node: string;
  readonly accepted: boolean;
  readonly runId: string | null;
  readonly refusal: Refusal | null;
  /** Of an abort that was accepted. PENDING: after the step that is under way. */
  readonly effect: "BEFORE_START" | "NOW" | "PENDING" | null;
}

export type Answer = Stamped & { readonly k: "answer"; readonly id: string } & (
    | {
        readonly ok: true;
        /** The operation that was started, or answered again; null for verbs that start none and for refusals. */
        readonly operationId: string | null;
        readonly replayed: boolean | null;
        /** Why the request as a whole was refused. Empty: it was carried out. */
        readonly refusals: readonly Refusal[];
        readonly results: readonly NodeAnswer[];
      }
    /** No answer, half of one, or an error in place of data: whether it was carried out is unknown. `status`: of HTTP, if there was one. */
    | { readonly ok: false; readonly error: string; readonly status: number | null }
  );

/** A subscription was sent. Each connection of a subscriber is a stream of its own. */
export interface Open extends Stamped {
  readonly k: "open";
  /** Unique in the run. */
  readonly stream: string;
  /** The subscriber: its streams, in the order they were opened, go on where the one before was left. */
  readonly client: string;
  readonly replica: string;
  readonly transport: "ws" | "sse";
  /** Cursor that it goes on after; null: it begins now. */
  readonly after: string | null;
  /** Position of the item or bookmark that the cursor came with. */
  readonly afterPosition: number | null;
  /** As it was sent; null: everything. */
  readonly filter: {
    readonly ids?: readonly string[];
    readonly labels?: readonly { readonly key: string; readonly value: string }[];
  } | null;
  /** Whether this reader takes its time on purpose; then nothing can be said of how often it is told something. */
  readonly stalls: boolean;
}

/** A transition, as the stream told it. */
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
  /** Absent where the stream did not ask for it: those over server-sent events do not. */
  readonly operationId?: string | null;
  readonly runId?: string | null;
  readonly step: string | null;
  readonly actor: string;
  readonly reason: string | null;
  /** As the service words it: ISO 8601. */
  readonly at: string;
}

/** A bookmark: everything up to `position` has been delivered. */
export interface Mark extends Stamped {
  readonly k: "mark";
  readonly stream: string;
  readonly position: number;
  readonly caughtUp: boolean;
}

/** The stream is over: a StreamReset's code, COMPLETE, LEFT (the reader went), or LOST (the connection broke, with what was said of it). */
export interface End extends Stamped {
  readonly k: "end";
  readonly stream: string;
  readonly code: string;
  readonly detail: string | null;
}

/** A step's function was called, told by the machine it talks to. */
export interface Enter extends Stamped {
  readonly k: "enter";
  /** Unique in the run. */
  readonly entry: string;
  readonly replica: string;
  readonly pid: number;
  /** Process that had started it: the replica's, where drivers run in processes of their own. */
  readonly parent: number;
  readonly node: string;
  readonly attemptKey: string;
  readonly phase: string;
  readonly step: string;
  readonly part: "run" | "verify" | "abort";
  /** Whether an earlier wait had left a memo. */
  readonly memo: boolean;
  /** Whether a callback ended the wait. */
  readonly callback: boolean;
  /** Of the step, declared: whether it may be entered again after a crash without a memo, and how it may be cut. */
  readonly idempotent: boolean;
  readonly interruptible: "ALWAYS" | "AT_BOUNDARY" | "NEVER";
  /** When the engine gives up, by its own word: ISO 8601. */
  readonly deadline: string;
  /** How long the step may take from its beginning to its end, as it is declared. */
  readonly timeoutSeconds: number;
  /** Where the machine may call back: another path for every entry of a run, which with the run's secret tells which entry it was. */
  readonly path: string;
}

/**
 * How the entry ended, as the machine decided it: `done`, `wait`, `retry` (a failure that may pass), `fail` (one that will
 * not), `cut` (its signal fired), `throw`, `junk`, `hang`, `block`, `exit` (misbehaviour that was ordered), or `lost`: the
 * process that was inside is gone, or its wire.
 */
export interface Leave extends Stamped {
  readonly k: "leave";
  readonly entry: string;
  readonly how: "done" | "wait" | "retry" | "fail" | "cut" | "throw" | "junk" | "hang" | "block" | "exit" | "lost";
  /** Of a wait: seconds, and whether it is for a callback. Of a failure: its reason. */
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
  /** Why it is refused, as the driver is told; it is decided when it is asked. Null: it is carried out. */
  readonly failure: string | null;
}

/** A machine, or a caller who would like to be one, called back. Written when it is answered, or when that failed. */
export interface Callback extends Stamped {
  readonly k: "callback";
  readonly id: string;
  readonly replica: string;
  readonly node: string;
  readonly attemptKey: string;
  readonly runId: string;
  /** good: the first one that is sent for this entry (it is sent again, as good, when it got no answer). late: its path is of an entry that was followed by others. */
  readonly kind: "good" | "duplicate" | "late" | "forged";
  /** When it was sent. */
  readonly sent: number;
  readonly path: string;
  /** Of HTTP: 202 taken, 409 duplicate or late, 404 unexpected; null: no answer. */
  readonly status: number | null;
}

/**
 * What may be done to the service. To a replica: `kill` (SIGKILL), `freeze` (SIGSTOP until its end), `term` (SIGTERM), `clock` (its wall clock
 * jumps). To `postgres`: `postgres-restart` (stopped at once and started again), `backends` (their connections are terminated), `disk-full`.
 * To a wire: `drop` (connections are cut), `delay`, `half-open` (nothing comes through and nothing is closed), its target being
 * `<replica>/database` or `<replica>/clients`. To a client: `stall` (a reader stops reading). To a node: `driver` (misbehaviour was ordered).
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

/** Something was done to the service, or undone. `begin` is written before, `end` after. What is over in a moment has both. */
export interface Nemesis extends Stamped {
  readonly k: "nemesis";
  readonly id: string;
  readonly what: (typeof NEMESES)[number];
  /** A replica, `postgres`, a proxy, a node, … */
  readonly target: string;
  readonly phase: "begin" | "end";
  readonly detail: string | null;
}

/** A part of the run begins. */
export interface Phase extends Stamped {
  readonly k: "phase";
  readonly what: "warm-up" | "storm" | "quiet" | "settled" | "over";
  readonly detail: string | null;
}

export interface Replica extends Stamped {
  readonly k: "replica";
  readonly name: string;
  readonly pid: number;
  /** killed: SIGKILL was sent. told: SIGTERM was sent. ended: it is gone, by whatever cause. */
  readonly what: "started" | "ready" | "killed" | "terminated" | "ended";
  readonly code: number | null;
  readonly signal: string | null;
  /** Of `ended` after `terminated`: milliseconds from one to the other. */
  readonly tookMs: number | null;
}

export interface Sample extends Stamped {
  readonly k: "sample";
  readonly what: "memory" | "handles";
  readonly replica: string;
  readonly pid: number;
  /** Resident bytes, or open file descriptors. */
  readonly value: number;
}

/**
 * A row of the database at the end, by the names of its columns; times as ISO 8601, JSON as JSON. `table` is one of clusters, nodes,
 * operations, runs, plans (hash and steps: interface, name, driver, phase, …), attempts, transitions, anomalies, lifecycle_edges, feed_position, jobs
 * (of the durable queue, unfinished ones), and step_log (per run: run_id, lines, first, last).
 */
export interface Row {
  readonly k: "row";
  readonly table: string;
  readonly row: Readonly<Record<string, unknown>>;
}

/** `run.json`: what the run was. */
export interface Run {
  readonly seed: number;
  readonly nodes: number;
  readonly streams: number;
  readonly replicas: readonly string[];
  readonly nemeses: readonly string[];
  /** The wall clock, in milliseconds since 1970, at this moment of the monotonic one. */
  readonly wallMs: number;
  readonly t: number;
  /** The sentence that ends the run's quiet: null when everything had ended within its time; else what had not. */
  readonly unsettled: string | null;
}

/** The monotonic clock, in milliseconds. */
export function clock(): number {
  return Math.round(Number(process.hrtime.bigint() / 1000n)) / 1000;
}

export interface Recorder<Kind extends keyof Files> {
  write(record: Files[Kind]): void;
  /** Resolves when all of it is in the file. */
  close(): Promise<void>;
}

/** Appends to one of the files of a run's folder. */
export function record<Kind extends keyof Files>(folder: string, file: Kind): Recorder<Kind> {
  const stream = createWriteStream(fileOf(folder, file), { flags: "a" });
  return {
    write: (one) => void stream.write(`${JSON.stringify(one)}\n`),
    close: () => new Promise((done, refuse) => void stream.once("error", refuse).end(done)),
  };
}

/** The records of one file, in the order they were written; none where there is no file. */
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
