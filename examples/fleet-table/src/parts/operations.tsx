/** The operations that are running, and the one that is open with its runs. All of it is followed. */
import { useChanges } from "ostler-client/react";
import { useState } from "react";
import { useClient } from "urql";
import { connection } from "../api/connection.ts";
import { AbortDocument, OperationChangesDocument, RunChangesDocument, StopDocument } from "../api/generated/graphql.ts";
import type { OperationFilter, OperationRowFragment, RunRowFragment, RunState } from "../api/generated/graphql.ts";
import { sentenceCase } from "../fleet/states.ts";

const UNFINISHED: OperationFilter = { states: ["QUEUED", "RUNNING", "ABORTING", "STOPPING"] };

const OPERATIONS_SHOWN = 4;
const RUNS_SHOWN = 100;
/** Runs that need attention come first; those in a state of a newer service come before all. */
const RUN_ORDER: readonly RunState[] = [
  "FAILED",
  "ABORTED",
  "HOLDING",
  "WAITING",
  "RUNNING",
  "QUEUED",
  "STOPPED",
  "UNDONE",
  "SUCCEEDED",
];
const RUN_FAMILY: Readonly<Partial<Record<RunState, string>>> = {
  SUCCEEDED: "active",
  FAILED: "failed",
  ABORTED: "failed",
  RUNNING: "working",
  WAITING: "waiting",
  HOLDING: "waiting",
};

export function RunningOperations({ onOpen }: { readonly onOpen: (id: string) => void }) {
  const { items } = useChanges(connection, OperationChangesDocument, { filter: UNFINISHED });
  // The newest first.
  const running = [...items.values()].toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  return (
    <nav className="running" aria-label="Running operations">
      {running.slice(0, OPERATIONS_SHOWN).map((operation) => (
        <button key={operation.id} type="button" onClick={() => onOpen(operation.id)}>
          {sentenceCase(operation.kind)} {operation.totalCount.toLocaleString("en")} <Bar operation={operation} />
        </button>
      ))}
      {running.length > OPERATIONS_SHOWN && <span>and {running.length - OPERATIONS_SHOWN} more</span>}
    </nav>
  );
}

export function OperationView({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  // By id: it stays when it has ended.
  const { items, isLive, error } = useChanges(connection, OperationChangesDocument, { filter: { ids: [id] } });
  const runs = useChanges(connection, RunChangesDocument, { operation: id });
  const operation = items.get(id);
  return (
    <aside className="operation" aria-label="Operation" aria-busy={!(isLive && runs.isLive)}>
      <header>
        <h2>
          {operation ? `${sentenceCase(operation.kind)} ${operation.totalCount.toLocaleString("en")} nodes` : "…"}
        </h2>
        <button type="button" aria-label="Close the operation" onClick={onClose}>
          ✕
        </button>
      </header>
      {(error ?? runs.error) !== null && <p role="alert">{(error ?? runs.error)?.message}</p>}
      {operation && <Summary operation={operation} />}
      {operation && operation.finishedAt === null && <Interrupts id={id} operation={operation} />}
      <RunList runs={runs.items} />
    </aside>
  );
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

function RunList({ runs }: { readonly runs: ReadonlyMap<string, RunRowFragment> }) {
  const rank = ({ state }: RunRowFragment) => RUN_ORDER.indexOf(state);
  const ordered = [...runs.values()].toSorted((a, b) => rank(a) - rank(b) || (a.nodeName < b.nodeName ? -1 : 1));
  return (
    <ol className="runs">
      {ordered.slice(0, RUNS_SHOWN).map(({ id, nodeName, state, currentStep, waiting, failure }) => (
        <li key={id}>
          <b>{nodeName}</b>{" "}
          <span className="state" data-family={RUN_FAMILY[state] ?? "rest"}>
            {sentenceCase(state)}
          </span>{" "}
          {failure?.message ?? waiting?.description ?? currentStep?.title}
          {currentStep?.progressPercent != null && ` ${currentStep.progressPercent} %`}
        </li>
      ))}
      {ordered.length > RUNS_SHOWN && <li>and {(ordered.length - RUNS_SHOWN).toLocaleString("en")} more</li>}
    </ol>
  );
}
