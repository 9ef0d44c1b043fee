/** One operation: what it does to each node, why it failed, and how to stop it. */
import type { ItemsView } from "ostler-client";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useRequest } from "../data/queries.ts";
import { useOperation, useRunsOfOperation } from "../data/streams.ts";
import type { OperationRow, RunRow } from "../data/streams.ts";
import { useThrottled } from "../data/use-throttled.ts";
import { GroupList } from "../parts/attention-list.tsx";
import { NotFound, Problem, UnknownParameters } from "../parts/notices.tsx";
import { RunBar } from "../parts/run-bar.tsx";
import { WorkState } from "../parts/state-badge.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { VirtualList } from "../parts/virtual-list.tsx";
import type { Column } from "../parts/virtual-list.tsx";
import { WorkButton } from "../parts/work-button.tsx";
import { nodePath, operationPath, useParameters } from "../routes.ts";
import { progressSentence } from "../words/forecasts.ts";
import { numberText, plural } from "../words/numbers.ts";
import {
  interruptRefusal,
  leftText,
  operationName,
  restartRefusal,
  waveText,
  wavesRefusal,
} from "../words/operations.ts";
import { RUN_ORDER, sentenceCase, urgencyOf, workFamilyOf } from "../words/states.ts";
import { nodeCountOf, runText } from "../words/runs.ts";
import { WORK } from "../words/verbs.ts";
import type { WorkMutation } from "../words/verbs.ts";
import { announced } from "../work/announcements.ts";
import type { Proposal } from "../work/outlook.ts";
import { WorkDialog } from "../work/work-dialog.tsx";

const PARAMETERS = { runs: RUN_ORDER } as const;
/** Failures are read again at most this often. */
const PAUSE_MS = 2_000;

export function OperationScreen({ id }: { readonly id: string }) {
  const { view, row } = useOperation(id);
  if (row) return <Operation operation={row} />;
  if (view.error) return <NotFound title="This operation cannot be shown">{<Problem error={view.error} />}</NotFound>;
  if (view.isWhole) return <NotFound title={`Operation ${id.slice(0, 60)} does not exist`} />;
  return (
    <div className="screen" aria-busy="true">
      <h1>Operation</h1>
    </div>
  );
}

function Operation({ operation }: { readonly operation: OperationRow }) {
  const { id, uuid, state, requestedBy, createdAt, finishedAt, etaSeconds, reason, runCounts, failedCount } = operation;
  const runs = useRunsOfOperation(id);
  const { values, unknown, change } = useParameters(PARAMETERS);
  const version = useThrottled(`${failedCount} ${finishedAt}`, PAUSE_MS);
  const detail = useRequest("operationDetail", { id }, version).data?.operation;
  const only = values.runs ?? null;
  return (
    <div className="screen">
      <h1>
        <Text>{operationName(operation)}</Text> <WorkState state={state} />
      </h1>
      <UnknownParameters unknown={unknown} path={operationPath(uuid)} />
      <p>
        Requested by <Text>{requestedBy}</Text> at <Time at={createdAt} />
        {reason !== null && (
          <>
            : “<Text>{reason}</Text>”
          </>
        )}
        {finishedAt !== null && (
          <>
            . Ended at <Time at={finishedAt} />
          </>
        )}
        .{etaSeconds !== null && finishedAt === null && ` ${sentenceCase(leftText(operation))}.`}{" "}
        {detail?.restartOf.map((one) => (
          <Link key={one.uuid} href={operationPath(one.uuid)}>
            It continues another operation.
          </Link>
        ))}
      </p>
      <RunBar counts={runCounts} />
      <RunCounts counts={runCounts} only={only} onOnly={(next) => change({ runs: next })} />
      {finishedAt === null && detail?.failureConsequence && (
        <p className="quiet">
          <Text>{detail.failureConsequence}</Text>
        </p>
      )}
      <Interrupts operation={operation} />
      <Waves operation={operation} />
      {detail && detail.failures.groups.length > 0 && (
        <section aria-labelledby="failures">
          <h2 id="failures">
            Failures <b>{numberText(detail.failures.nodeCount)}</b>
          </h2>
          <GroupList groups={detail.failures.groups} />
        </section>
      )}
      <Steps runs={runs.items} />
      <Runs view={runs} totalCount={operation.totalCount} only={only} />
    </div>
  );
}

interface RunCountsProps {
  readonly counts: OperationRow["runCounts"];
  readonly only: string | null;
  readonly onOnly: (state: string | null) => void;
}

function RunCounts({ counts, only, onOnly }: RunCountsProps) {
  return (
    <section aria-label="Runs by state" className="counts">
      {counts
        .filter(({ count }) => count > 0)
        .map(({ state, count }) => (
          <button
            key={state}
            type="button"
            className="state"
            data-family={workFamilyOf(state)}
            aria-pressed={only === state}
            onClick={() => onOnly(only === state ? null : state)}
          >
            {sentenceCase(state)} <b>{numberText(count)}</b>
          </button>
        ))}
    </section>
  );
}

/** Both buttons are always in one place; a disabled one says why. */
function Interrupts({ operation }: { readonly operation: OperationRow }) {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const { id, uuid, interrupt, interruptBy, interruptReason, runCounts } = operation;
  const input = { work: { operationId: id } };
  const buttons: readonly (readonly [WorkMutation, string | null])[] = [
    ["stop", interruptRefusal(operation, "stop")],
    ["abort", interruptRefusal(operation, "abort")],
    ["restart", restartRefusal(operation)],
  ];
  const before = announced(uuid);
  return (
    <section aria-label="Interrupt and continue">
      <div className="buttons">
        {buttons.map(([mutation, refusal]) => (
          <WorkButton
            key={mutation}
            mutation={mutation}
            refusal={refusal}
            isDangerous={mutation === "abort"}
            onClick={() => setProposal({ mutation, input, object: operationName(operation) })}
          >
            {WORK[mutation].name}…
          </WorkButton>
        ))}
      </div>
      {(interrupt !== null || before) && (
        <div className="after" role="status">
          <p>
            <b>{interrupt === null ? before?.verb : interrupt === "STOP" ? "Stop" : "Abort"}</b>
            {interruptBy !== null && (
              <>
                {" "}
                by <Text>{interruptBy === "engine" ? "the service, after a failure or a timeout" : interruptBy}</Text>
              </>
            )}
            {interruptReason !== null && (
              <>
                : “<Text>{interruptReason}</Text>”
              </>
            )}
          </p>
          {before && (
            <p>
              Announced at <Time at={before.at} />: {before.sentence}
            </p>
          )}
          <p>{progressSentence(runCounts)}</p>
        </div>
      )}
      {proposal && (
        <WorkDialog proposal={proposal} version={JSON.stringify(runCounts)} onClose={() => setProposal(null)} />
      )}
    </section>
  );
}

const WAVE_ACTIONS = ["haltWaves", "resumeWaves", "advanceWaves"] as const;

function Waves({ operation }: { readonly operation: OperationRow }) {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const { id, rollout, finishedAt } = operation;
  if (!rollout) return null;
  const { wave, sizes, reason, until, maxFailures } = rollout;
  return (
    <section aria-labelledby="waves">
      <h2 id="waves">Waves</h2>
      <p>
        {sentenceCase(waveText(rollout))}. Nodes in each:{" "}
        {sizes.map((size, index) => `${numberText(size)}${index + 1 === wave ? " (now)" : ""}`).join(", ")}.
        {maxFailures !== null && ` Halts after ${plural(maxFailures + 1, "failure")}.`}{" "}
        {reason !== null && <Text>{reason}</Text>}
        {until !== null && (
          <>
            {" "}
            Until <Time at={until} />.
          </>
        )}
      </p>
      <div className="buttons" hidden={finishedAt !== null}>
        {WAVE_ACTIONS.map((mutation) => (
          <WorkButton
            key={mutation}
            mutation={mutation}
            refusal={wavesRefusal(mutation, rollout)}
            onClick={() => setProposal({ mutation, input: { operationId: id }, object: "" })}
          >
            {WORK[mutation].name}…
          </WorkButton>
        ))}
      </div>
      {proposal && <WorkDialog proposal={proposal} onClose={() => setProposal(null)} />}
    </section>
  );
}

/** How many nodes are at which step, in the order of the steps. */
function Steps({ runs }: { readonly runs: ReadonlyMap<string, RunRow> }) {
  const open = [...runs.values()].filter(
    ({ currentStep, finishedAt, state }) => currentStep && finishedAt === null && state !== "QUEUED",
  );
  if (open.length === 0) return null;
  const byStep = Map.groupBy(open, ({ currentStep }) => `${currentStep?.interface.toLowerCase()}.${currentStep?.name}`);
  const steps = [...byStep].toSorted(([, [a]], [, [b]]) => (a?.currentStep?.index ?? 0) - (b?.currentStep?.index ?? 0));
  return (
    <section aria-labelledby="steps">
      <h2 id="steps">At which step</h2>
      <ul className="step-counts">
        {steps.map(([step, at]) => (
          <li key={step}>
            <span>
              <Text>{at[0]?.currentStep?.title}</Text> <small className="quiet">{step}</small>
            </span>
            <RunBar
              counts={[...Map.groupBy(at, ({ state }) => state)].map(([state, { length }]) => ({
                state,
                count: length,
              }))}
            />
            <b>{numberText(at.length)}</b>
          </li>
        ))}
      </ul>
    </section>
  );
}

const RUN_COLUMNS: readonly Column<RunRow>[] = [
  {
    name: "Node",
    width: "minmax(120px, 1fr)",
    show: ({ nodeName }) => (
      <Link href={nodePath(nodeName)} tabIndex={-1}>
        {nodeName}
      </Link>
    ),
  },
  { name: "State", width: "130px", show: ({ state }) => <WorkState state={state} /> },
  { name: "Now", width: "minmax(160px, 3fr)", show: (run) => <Text>{runText(run)}</Text> },
];

interface RunsProps {
  readonly view: ItemsView<RunRow>;
  readonly totalCount: number;
  readonly only: string | null;
}

function Runs({ view: { items, isWhole, error }, totalCount, only }: RunsProps) {
  const [, navigate] = useLocation();
  const rows = [...items.values()]
    .filter(({ state }) => only === null || state === only)
    .toSorted((a, b) => urgencyOf(a.state) - urgencyOf(b.state) || (a.nodeName < b.nodeName ? -1 : 1));
  return (
    <section aria-labelledby="runs" className="fill">
      <h2 id="runs">
        {only === null ? "Nodes" : `Nodes: ${sentenceCase(only).toLowerCase()}`} <b>{numberText(nodeCountOf(rows))}</b>
        {!isWhole && (
          <span className="quiet">
            {" "}
            of those that are read: {numberText(nodeCountOf([...items.values()]))} of {numberText(totalCount)}
          </span>
        )}
      </h2>
      {error && <Problem error={error} />}
      <VirtualList
        label="Runs"
        columns={RUN_COLUMNS}
        rows={rows}
        idOf={({ id }) => id}
        onOpen={({ nodeName }) => navigate(nodePath(nodeName))}
        isBusy={!isWhole}
      />
    </section>
  );
}
