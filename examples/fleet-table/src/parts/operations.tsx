/** The operations that are running, and the one that is open. */
import { useState } from "react";
import { useClient, useSubscription } from "urql";
import {
  AbortDocument,
  OperationHeadDocument,
  OperationProgressDocument,
  StopDocument,
} from "../api/generated/graphql.ts";
import type { OperationProgressSubscription, OperationRowFragment, RunState } from "../api/generated/graphql.ts";
import { sentenceCase } from "../fleet/states.ts";

type LatestRun = NonNullable<OperationProgressSubscription["operationUpdates"]["run"]>;

const HEADS_SHOWN = 4;
const RUNS_SHOWN = 100;
const RUN_FAMILY: Readonly<Partial<Record<RunState, string>>> = {
  SUCCEEDED: "active",
  FAILED: "failed",
  ABORTED: "failed",
  RUNNING: "working",
  WAITING: "waiting",
  HOLDING: "waiting",
};

interface RunningProps {
  readonly ids: readonly string[];
  readonly onOpen: (id: string) => void;
}

/** One stream for each: the rows say which operations there are, and a stream says how far each is. */
export function RunningOperations({ ids, onOpen }: RunningProps) {
  return (
    <nav className="running" aria-label="Running operations">
      {ids.slice(0, HEADS_SHOWN).map((id) => (
        <RunningOperation key={id} id={id} onOpen={onOpen} />
      ))}
      {ids.length > HEADS_SHOWN && <span>and {ids.length - HEADS_SHOWN} more</span>}
    </nav>
  );
}

function RunningOperation({ id, onOpen }: { readonly id: string; readonly onOpen: (id: string) => void }) {
  const [{ data }] = useSubscription({ query: OperationHeadDocument, variables: { id } });
  const operation = data?.operationUpdates.operation;
  if (!operation) return null;
  return (
    <button type="button" onClick={() => onOpen(id)}>
      {sentenceCase(operation.kind)} {operation.totalCount.toLocaleString("en")} <Bar operation={operation} />
    </button>
  );
}

interface ViewState {
  readonly operation: OperationRowFragment | null;
  /** Runs that have changed since the view was opened, the newest last. */
  readonly runs: ReadonlyMap<string, LatestRun>;
}

export function OperationView({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const [{ data, error }] = useSubscription(
    { query: OperationProgressDocument, variables: { id } },
    (before: ViewState = { operation: null, runs: new Map() }, item) => {
      const { operation, run } = item.operationUpdates;
      return { operation, runs: run ? latest(before.runs, run) : before.runs };
    },
  );
  const operation = data?.operation;
  return (
    <aside className="operation" aria-label="Operation">
      <header>
        <h2>
          {operation ? `${sentenceCase(operation.kind)} ${operation.totalCount.toLocaleString("en")} nodes` : "…"}
        </h2>
        <button type="button" aria-label="Close the operation" onClick={onClose}>
          ✕
        </button>
      </header>
      {error && <p role="alert">{error.message}</p>}
      {operation && <Summary operation={operation} />}
      {operation && operation.finishedAt === null && <Interrupts id={id} operation={operation} />}
      <RunList runs={[...(data?.runs.values() ?? [])].toReversed()} />
    </aside>
  );
}

function latest(runs: ReadonlyMap<string, LatestRun>, run: LatestRun): ReadonlyMap<string, LatestRun> {
  const next = new Map(runs);
  next.delete(run.id);
  next.set(run.id, run);
  for (const oldest of next.keys()) {
    if (next.size <= RUNS_SHOWN) break;
    next.delete(oldest);
  }
  return next;
}

function Summary({ operation }: { readonly operation: OperationRowFragment }) {
  const { state, requestedBy, createdAt, etaSeconds, runCounts, firstFailure } = operation;
  return (
    <>
      <p>
        <b data-testid="operation-state">{sentenceCase(state)}</b> · begun by {requestedBy} at{" "}
        <time dateTime={createdAt}>{new Date(createdAt).toLocaleTimeString("en-GB")}</time>
        {etaSeconds !== null && operation.finishedAt === null && ` · about ${Math.ceil(etaSeconds / 60)} min left`}
      </p>
      <Bar operation={operation} />
      <ul className="run-counts">
        {runCounts.map(({ state: runState, count }) => (
          <li key={runState} className="state" data-family={RUN_FAMILY[runState] ?? "rest"}>
            {sentenceCase(runState)} <b>{count.toLocaleString("en")}</b>
          </li>
        ))}
      </ul>
      {firstFailure && (
        <p className="failure">
          First failure: {firstFailure.nodeName} {firstFailure.step && `at ${firstFailure.step}`}:{" "}
          {firstFailure.message}
        </p>
      )}
    </>
  );
}

/** The bar has a part for each state of runs: a stopped operation is finished, and has reached nothing. */
function Bar({ operation }: { readonly operation: OperationRowFragment }) {
  const { finishedCount, totalCount, runCounts } = operation;
  return (
    <span className="bar" role="img" aria-label={`${finishedCount} of ${totalCount} ended`}>
      {runCounts.map(({ state, count }) => (
        <span key={state} data-family={RUN_FAMILY[state] ?? "rest"} style={{ flexGrow: count }} />
      ))}
    </span>
  );
}

function Interrupts({ id, operation }: { readonly id: string; readonly operation: OperationRowFragment }) {
  const client = useClient();
  const [answer, setAnswer] = useState<string | null>(null);
  const interrupt = async (kind: "Stop" | "Abort") => {
    const input = { work: { operationId: id } };
    const { data, error } =
      kind === "Stop"
        ? await client.mutation(StopDocument, { input }).toPromise()
        : await client.mutation(AbortDocument, { input }).toPromise();
    const errors = data?.answer.errors.map(({ message }) => message) ?? [];
    setAnswer(
      error?.message ?? [`${kind} was accepted for ${data?.answer.acceptedCount ?? 0} nodes.`, ...errors].join(" "),
    );
  };
  return (
    <>
      <div className="buttons">
        <button
          type="button"
          disabled={operation.interrupt !== null}
          title="Each node ends its step; restart goes on."
          onClick={() => void interrupt("Stop")}
        >
          Stop
        </button>
        <button
          type="button"
          className="danger"
          disabled={operation.interrupt === "ABORT"}
          title="Ends the work now; machines in cleaning or deployment are powered off."
          onClick={() => void interrupt("Abort")}
        >
          Abort
        </button>
      </div>
      {answer !== null && <p role="status">{answer}</p>}
    </>
  );
}

function RunList({ runs }: { readonly runs: readonly LatestRun[] }) {
  return (
    <ol className="runs">
      {runs.map(({ id, nodeName, state, currentStep, waiting, failure }) => (
        <li key={id}>
          <b>{nodeName}</b>{" "}
          <span className="state" data-family={RUN_FAMILY[state] ?? "rest"}>
            {sentenceCase(state)}
          </span>{" "}
          {failure?.message ?? waiting?.description ?? currentStep?.title}
          {currentStep?.progressPercent != null && ` ${currentStep.progressPercent} %`}
        </li>
      ))}
    </ol>
  );
}
