/**
 * The events that the service reports about itself. Metrics, traces and log lines are made of them in src/telemetry;
 * the code that reports them knows none of these. Observing changes nothing: a method that wraps work returns or throws
 * what the work does, no method throws an error of its own, and nothing waits for one. `noopObserver` costs an empty
 * call.
 *
 * Only fields with few values (kinds, steps, outcomes) become labels of metrics. Names of nodes and ids are for traces
 * and the log.
 */

/** A call to a machine, as its driver (`Call.timed`) or the engine (`power read`) names it. */
export interface CallAbout {
  readonly driver: string;
  readonly name: string;
  /** Name of the node, or the probed address. */
  readonly node: string;
}

/** One entry of a step: from one boundary to the next. */
export interface StepAbout {
  readonly operationId: string;
  readonly runId: string;
  readonly node: string;
  /** `interface.name`. */
  readonly step: string;
  readonly driver: string;
  /** From 1. */
  readonly attempt: number;
  /** RUN or VERIFY. */
  readonly part: string;
}

/** How an entry ended. `reason` is text for people, with secrets masked. */
export interface StepEnd {
  readonly kind: "done" | "wait" | "failed" | "aborted" | "lost";
  readonly code?: string;
  readonly reason?: string;
}

export interface RunAbout {
  readonly operationId: string;
  readonly runId: string;
  readonly node: string;
  /** WORK or CLEAN_UP. */
  readonly purpose: string;
}

/** A mutating request during its admission. */
export interface AdmissionAbout {
  /** A verb in lower case (`commission`), or a mutation (`register_nodes`). */
  readonly verb: string;
  readonly actor: string;
}

export interface AdmissionEnd {
  /** Null if no operation was created. */
  readonly operationId: string | null;
  readonly nodes: number;
  /** One code per refusal, of the whole request or of one node. */
  readonly codes: readonly string[];
  readonly replayed: boolean;
}

/** A GraphQL request that was parsed and validated. */
export interface RequestAbout {
  readonly type: "query" | "mutation" | "subscription";
  readonly transport: "http" | "websocket";
  /** Operation name that the client gave; null if it gave none. */
  readonly name: string | null;
  readonly requestId: string;
  /** Header of W3C Trace Context. */
  readonly traceparent: string | null;
}

/** ok: no errors. refused: an error of the client. error: an error of the service. */
export type RequestOutcome = "ok" | "refused" | "error";

export interface RequestWatch {
  /** Runs the work of the request, so that spans of calls in it belong to the request. */
  within<T>(work: () => T): T;
  /** A subscription ends when it has begun; `streamOpened` reports its stream. */
  end(outcome: RequestOutcome): void;
}

type CallbackOutcome = "TAKEN" | "LATE" | "DUPLICATE" | "FORGED" | "UNKNOWN";

/** Kinds of requests to the listener for machines; `none`: nothing is at that path. */
export type MachineRequest =
  | "boot_script"
  | "lease"
  | "agent_poll"
  | "agent_result"
  | "call_home"
  | MachineFile
  | "none";

/** `boot_file`: kernel, ramdisk, iPXE. `boot_medium`: the ISO of a session. */
export type MachineFile = "boot_file" | "boot_medium" | "image";

/** unknown: no such session, or a wrong secret. second: the session has another agent. */
type AgentRefusal = "unknown" | "second";

/** Why a request has no valid token. */
export type LoginFailure = "missing" | "wrong";

export interface Observer {
  /** Wraps a call of a driver to its machine. */
  call<T>(about: CallAbout, work: () => Promise<T>): Promise<T>;
  /** Wraps the entry of a step. */
  step<T extends StepEnd>(about: StepAbout, work: () => Promise<T>): Promise<T>;
  /** Wraps the admission of a request. `end` derives the result from what the work returns. */
  admission<T>(about: AdmissionAbout, work: () => Promise<T>, end: (answer: T) => AdmissionEnd): Promise<T>;
  /** The execution of a request begins. */
  request(about: RequestAbout): RequestWatch;
  /** A request was refused because it could not be parsed or validated. */
  requestRefused(): void;
  /** A request or a connection was refused because it has no valid token. */
  loginFailed(reason: LoginFailure): void;

  /** A run was claimed: for the first time (`first`), after a wait, or from a process that lost it (`takenOver`). */
  runClaimed(run: RunAbout, how: { readonly first: boolean; readonly takenOver: boolean }): void;
  /** A run has ended in `state`. Reported after the commit. */
  runEnded(run: RunAbout & { readonly startedAt: Date | null }, state: string): void;
  /** Runs that had ended became UNDONE, because their nodes are cleaned up. */
  runsUndone(runs: number): void;
  /** An operation has its final state. Reported after the commit. */
  operationEnded(operation: {
    readonly operationId: string;
    readonly kind: string;
    readonly state: string;
    readonly createdAt: Date;
  }): void;
  /** A write was rejected because another process has claimed the run. */
  fenced(run: Pick<RunAbout, "runId"> & Partial<RunAbout>): void;
  /** This process has claimed work (1), or no longer holds it (-1). */
  inHand(kind: "run" | "discovery", change: 1 | -1): void;
  /** A claim, the renewal of leases, or claimed work itself has failed, and is tried again. */
  claimFailed(what: "claim" | "lease" | "run" | "operation"): void;
  /** Transitions were committed. */
  appended(transitions: number): void;
  /** A statement or a transaction failed with its connection. */
  connectionLost(): void;
  /** The clock of the database was set, and this process corrected what waits. */
  clockStepped(): void;

  /** Time from the commit of a transition until the streams of this process read it. Two clocks, so at least 0. */
  streamLag(seconds: number): void;
  streamOpened(transport: "http" | "websocket"): void;
  /** The stream ended, on either side. */
  streamEnded(transport: "http" | "websocket"): void;
  /** The service ended a stream early: with a reset of that code, or TOO_SLOW because its reader did not keep up. */
  streamReset(code: string): void;
  /** A machine has called back. */
  calledBack(outcome: CallbackOutcome): void;

  /** New connections to the port get a certificate that expires then. */
  certificateUsed(expiresAt: Date): void;
  /** A request of a machine has ended. The status is null if its connection ended before the response did. */
  machineAnswered(request: MachineRequest, status: number | null): void;
  /** A part of a file was sent to a machine or its BMC. */
  fileBytesSent(file: MachineFile, bytes: number): void;
  /** A request of an agent was refused. */
  agentRefused(reason: AgentRefusal): void;
}

/** The events without work to run. */
type PlainEvents = Omit<Observer, "call" | "step" | "admission" | "request">;

const noop = () => {};

const NO_EVENTS: Readonly<Record<keyof PlainEvents, () => void>> = {
  requestRefused: noop,
  loginFailed: noop,
  certificateUsed: noop,
  runClaimed: noop,
  runEnded: noop,
  runsUndone: noop,
  operationEnded: noop,
  fenced: noop,
  inHand: noop,
  claimFailed: noop,
  appended: noop,
  connectionLost: noop,
  clockStepped: noop,
  streamLag: noop,
  streamOpened: noop,
  streamEnded: noop,
  streamReset: noop,
  calledBack: noop,
  machineAnswered: noop,
  fileBytesSent: noop,
  agentRefused: noop,
};

const NOOP_WATCH: RequestWatch = { within: (work) => work(), end: noop };

export const noopObserver: Observer = {
  ...NO_EVENTS,
  call: (_about, work) => work(),
  step: (_about, work) => work(),
  admission: (_about, work) => work(),
  request: () => NOOP_WATCH,
};

/** Reports to both. What the first wraps runs within what the second wraps. */
export function combineObservers(one: Observer, other: Observer): Observer {
  const events = (Object.keys(NO_EVENTS) as (keyof PlainEvents)[]).map((name) => {
    const report = (...about: readonly unknown[]) => {
      for (const observer of [one, other]) Reflect.apply(observer[name], observer, about);
    };
    return [name, report];
  });
  return {
    ...(Object.fromEntries(events) as PlainEvents),
    call: (about, work) => other.call(about, () => one.call(about, work)),
    step: (about, work) => other.step(about, () => one.step(about, work)),
    admission: (about, work, end) => other.admission(about, () => one.admission(about, work, end), end),
    request: (about) => combineWatches(one.request(about), other.request(about)),
  };
}

function combineWatches(one: RequestWatch, other: RequestWatch): RequestWatch {
  return {
    within: (work) => other.within(() => one.within(work)),
    end(outcome) {
      one.end(outcome);
      other.end(outcome);
    },
  };
}
