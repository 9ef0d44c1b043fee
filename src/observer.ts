/**
 * What the service tells whoever watches it: metrics, traces and lines of the log are made of it, in src/telemetry. Who
 * does the work calls these and knows nothing of either. Watching changes nothing: what wraps work answers, or throws,
 * what the work does; nothing here throws by itself, and nothing is waited for. Where nobody watches, `NOBODY` does, and
 * costs the call of an empty function.
 *
 * Metrics take only the few words of each: kinds, steps, outcomes. Names of nodes and ids are for traces and the log.
 */

/** A call of a driver to its machine, as the driver itself (`Call.timed`) or the engine (`power read`) names it. */
export interface CallAbout {
  readonly driver: string;
  readonly name: string;
  /** Name of the node, or the address that is probed. */
  readonly node: string;
}

/** An entry of a step: what happens between two boundaries. */
export interface StepAbout {
  readonly operationId: string;
  readonly runId: string;
  readonly node: string;
  /** `interface.name`. */
  readonly step: string;
  readonly driver: string;
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  /** RUN, or VERIFY. */
  readonly part: string;
}

/** How an entry ended: `code` of a failure, `reason` for people, secrets masked. */
export interface StepEnd {
  readonly kind: "done" | "wait" | "failed" | "aborted" | "lost";
  readonly code?: string;
  readonly reason?: string;
}

/** A run, as the one who works on it has it. */
export interface RunAbout {
  readonly operationId: string;
  readonly runId: string;
  readonly node: string;
  /** WORK, or CLEAN_UP. */
  readonly purpose: string;
}

/** A request that changes something, while it is judged. */
export interface AdmissionAbout {
  /** What is asked: a verb in lower case (`commission`), or the mutation (`register_nodes`). */
  readonly verb: string;
  readonly actor: string;
}

/** What became of it. */
export interface AdmissionEnd {
  /** Null: nothing was begun. */
  readonly operationId: string | null;
  readonly nodes: number;
  /** A code for each refusal: of the whole request, or of one node. */
  readonly codes: readonly string[];
  readonly replayed: boolean;
}

/** A request of GraphQL that has been understood. */
export interface RequestAbout {
  readonly type: "query" | "mutation" | "subscription";
  readonly transport: "http" | "websocket";
  /** As the client calls it; null where it does not. */
  readonly name: string | null;
  readonly requestId: string;
  /** The header of W3C Trace Context. */
  readonly traceparent: string | null;
}

/** ok: answered without errors. refused: the request was at fault. error: we were. */
export type RequestOutcome = "ok" | "refused" | "error";

export interface RequestWatch {
  /** Does the request's work, so that what it calls is known to belong to it. */
  within<T>(work: () => T): T;
  /** A subscription ends when it has begun: its stream is told of by `streamOpened`. */
  end(outcome: RequestOutcome): void;
}

/** What became of a machine's call-back. */
export type CallbackOutcome = "TAKEN" | "LATE" | "DUPLICATE" | "FORGED" | "UNKNOWN";

export interface Observer {
  /** Wraps a call of a driver to its machine. */
  call<T>(about: CallAbout, work: () => Promise<T>): Promise<T>;
  /** Wraps the entry of a step. */
  step<T extends StepEnd>(about: StepAbout, work: () => Promise<T>): Promise<T>;
  /** Wraps the judging of a request; `end` tells what became of it by what the work answers. */
  admission<T>(about: AdmissionAbout, work: () => Promise<T>, end: (answer: T) => AdmissionEnd): Promise<T>;
  /** A request begins to be executed. */
  request(about: RequestAbout): RequestWatch;
  /** A request was refused before it was understood. */
  requestRefused(): void;

  /** A run was claimed: for the first time (`first`), after a wait, or from one that has let go of it (`takenOver`). */
  runClaimed(run: RunAbout, how: { readonly first: boolean; readonly takenOver: boolean }): void;
  /** A run has ended, in `state`; `seconds` from its beginning. Told after the commit. */
  runEnded(run: RunAbout & { readonly startedAt: Date | null }, state: string): void;
  /** An operation has its final state. Told after the commit. */
  operationEnded(operation: {
    readonly operationId: string;
    readonly kind: string;
    readonly state: string;
    readonly createdAt: Date;
  }): void;
  /** A write was refused, because another process has claimed the run since. */
  fenced(run: Pick<RunAbout, "runId"> & Partial<RunAbout>): void;
  /** This process has taken a job of the queue (1), or has done with it (-1). */
  inHand(queue: string, change: 1 | -1): void;
  /** The queue could not be asked for work, or told that we are alive. */
  queueFailed(what: "fetch" | "heartbeat" | "job"): void;
  /** So many transitions were committed. */
  appended(transitions: number): void;
  /** A statement or a transaction was lost with its connection. */
  connectionLost(): void;

  /** A transition came into the hands of this process's streams, so long after its commit. By two clocks: never below 0. */
  streamLag(seconds: number): void;
  streamOpened(transport: "http" | "websocket"): void;
  /** Whoever ended it. */
  streamEnded(transport: "http" | "websocket"): void;
  /** We have ended a stream before its time: with a reset of that code, or cut, as its reader was TOO_SLOW. */
  streamReset(code: string): void;
  calledBack(verdict: CallbackOutcome): void;
}

const UNWATCHED: RequestWatch = { within: (work) => work(), end: () => {} };
const nothing = () => {};

export const noopObserver: Observer = {
  call: (_about, work) => work(),
  step: (_about, work) => work(),
  admission: (_about, work) => work(),
  request: () => UNWATCHED,
  requestRefused: nothing,
  runClaimed: nothing,
  runEnded: nothing,
  operationEnded: nothing,
  fenced: nothing,
  inHand: nothing,
  queueFailed: nothing,
  appended: nothing,
  connectionLost: nothing,
  streamLag: nothing,
  streamOpened: nothing,
  streamEnded: nothing,
  streamReset: nothing,
  calledBack: nothing,
};

/** Tells two: what the first wraps is within what the second wraps. */
export function combineObservers(one: Observer, other: Observer): Observer {
  return {
    call: (about, work) => other.call(about, () => one.call(about, work)),
    step: (about, work) => other.step(about, () => one.step(about, work)),
    admission: (about, work, end) => other.admission(about, () => one.admission(about, work, end), end),
    request(about) {
      const [first, second] = [one.request(about), other.request(about)];
      return {
        within: (work) => second.within(() => first.within(work)),
        end(outcome) {
          first.end(outcome);
          second.end(outcome);
        },
      };
    },
    requestRefused() {
      one.requestRefused();
      other.requestRefused();
    },
    runClaimed(run, how) {
      one.runClaimed(run, how);
      other.runClaimed(run, how);
    },
    runEnded(run, state) {
      one.runEnded(run, state);
      other.runEnded(run, state);
    },
    operationEnded(operation) {
      one.operationEnded(operation);
      other.operationEnded(operation);
    },
    fenced(run) {
      one.fenced(run);
      other.fenced(run);
    },
    inHand(queue, change) {
      one.inHand(queue, change);
      other.inHand(queue, change);
    },
    queueFailed(what) {
      one.queueFailed(what);
      other.queueFailed(what);
    },
    appended(transitions) {
      one.appended(transitions);
      other.appended(transitions);
    },
    connectionLost() {
      one.connectionLost();
      other.connectionLost();
    },
    streamLag(seconds) {
      one.streamLag(seconds);
      other.streamLag(seconds);
    },
    streamOpened(transport) {
      one.streamOpened(transport);
      other.streamOpened(transport);
    },
    streamEnded(transport) {
      one.streamEnded(transport);
      other.streamEnded(transport);
    },
    streamReset(code) {
      one.streamReset(code);
      other.streamReset(code);
    },
    calledBack(verdict) {
      one.calledBack(verdict);
      other.calledBack(verdict);
    },
  };
}
