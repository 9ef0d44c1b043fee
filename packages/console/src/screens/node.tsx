/** One node: its state and why, what works on it, its log, and what happened to it before. */
import { useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import { serviceNow } from "../data/clock.ts";
import type { Answers } from "../../requests.ts";
import { useRequest } from "../data/queries.ts";
import { request } from "../data/request.ts";
import { fleet, useRunsOfNode, useStore } from "../data/streams.ts";
import type { RunRow } from "../data/streams.ts";
import { useThrottled } from "../data/use-throttled.ts";
import { EditDialog } from "../parts/editor.tsx";
import type { Editing } from "../parts/editor.tsx";
import { Choice } from "../parts/choice.tsx";
import { Inventory } from "../parts/inventory.tsx";
import { LifeLine } from "../parts/life-line.tsx";
import { NotFound, Problem, UnknownParameters } from "../parts/notices.tsx";
import { RunLog } from "../parts/run-log.tsx";
import { RunSteps } from "../parts/run-steps.tsx";
import { NodeState, WorkState } from "../parts/state-badge.tsx";
import { Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { WorkButton } from "../parts/work-button.tsx";
import { clusterPath, nodePath, operationPath, useParameters } from "../routes.ts";
import { NODE_FIELDS, nodePlace, nodeTexts, readNode } from "../words/edits.ts";
import { errorText, marksOf } from "../words/nodes.ts";
import { agoText, timeText } from "../words/numbers.ts";
import { explainingRun, runName, runText } from "../words/runs.ts";
import { sentenceCase } from "../words/states.ts";
import { VerbBar } from "../work/verb-bar.tsx";

export type NodeDetail = NonNullable<Answers["nodeDetail"]["node"]>;

/** `run`: the id of the run that is shown in place of the one that explains the state. */
const PARAMETERS = { run: null } as const;
const PAUSE_MS = 1_000;

export function NodeScreen({ name }: { readonly name: string }) {
  const { items, isWhole } = useStore(fleet);
  const row = [...items.values()].find((node) => node.name === name);
  const version = useThrottled(row?.revision ?? (isWhole ? -1 : 0), PAUSE_MS);
  const { data, error, refetch } = useRequest("nodeDetail", { name }, version);
  if (data?.node) return <Node node={data.node} version={version} />;
  if (data) return <NoSuchNode name={name} />;
  if (error) return <NotFound title={name}>{<Problem error={error} onAgain={() => void refetch()} />}</NotFound>;
  return (
    <div className="screen" aria-busy="true">
      <h1>
        <Text>{name}</Text>
      </h1>
    </div>
  );
}

const NAMES_OFFERED = 8;
const NAME_LENGTH_MAX = 253;

function NoSuchNode({ name }: { readonly name: string }) {
  // The beginning of a name is seldom wrong.
  const part = name.replace(/[\d.-]*$/, "").slice(0, NAME_LENGTH_MAX);
  const { data } = useRequest(
    "nodeNames",
    { filter: { name: { startsWith: part } }, first: NAMES_OFFERED },
    part === "" ? null : 0,
  );
  const names = data?.nodes.nodes ?? [];
  return (
    <NotFound title={`Node ${name.slice(0, 60)} does not exist`}>
      {names.length > 0 && (
        <p>
          Similar names:{" "}
          {names.map((node) => (
            <Link key={node.id} href={nodePath(node.name)} className="name">
              {node.name}
            </Link>
          ))}
        </p>
      )}
    </NotFound>
  );
}

interface NodeProps {
  readonly node: NodeDetail;
  readonly version: number;
}

function Node({ node, version }: NodeProps) {
  const { name, state, targetState, cluster } = node;
  const runs = useRunsOfNode(name);
  const { values, unknown, change } = useParameters(PARAMETERS);
  // The newest first.
  const ordered = [...runs.items.values()].toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  const run = ordered.find(({ id }) => id === values.run) ?? explainingRun(ordered);
  return (
    <div className="screen">
      <h1>
        <Text>{name}</Text> <NodeState state={state} />
        {targetState !== null && targetState !== state && (
          <small className="quiet"> on the way to {sentenceCase(targetState)}</small>
        )}
      </h1>
      <UnknownParameters unknown={unknown} path={nodePath(name)} />
      <Why node={node} run={ordered[0]} />
      <VerbBar target={{ ids: [node.id], object: name }} verdicts={node.actions} />
      {run && (
        <section aria-labelledby="run">
          <h2 id="run">
            <Link href={operationPath(run.operation.uuid)}>{runName(run)}</Link> <WorkState state={run.state} />
          </h2>
          <RunPicker runs={ordered} run={run} onPick={(id) => change({ run: id })} />
          <RunSteps run={run} />
          <RunLog key={run.id} id={run.id} />
        </section>
      )}
      <Facts node={node} clusterName={cluster?.name ?? null} />
      <LifeLine name={name} version={version} />
      <Inventory name={name} version={version} />
    </div>
  );
}

/** State and reason in sentences. */
function Why({ node, run }: { readonly node: NodeDetail; readonly run: RunRow | undefined }) {
  const { lastError, identityConflict, retiredReason, powerProblem } = node;
  const open = run && run.finishedAt === null ? run : null;
  const sentences = [
    open && runText(open),
    !open && lastError && errorText(lastError),
    ...marksOf({ ...node, lastError: null }),
    retiredReason,
    identityConflict &&
      `Seems to be the same machine as ${identityConflict.nodeName} (${sentenceCase(identityConflict.kind).toLowerCase()} ${identityConflict.value}).`,
    powerProblem && `Power: ${powerProblem}`,
  ].filter((sentence) => typeof sentence === "string" && sentence !== "");
  if (sentences.length === 0) return <p className="quiet">Nothing works on it, and nothing is wrong with it.</p>;
  return (
    <ul className="why">
      {sentences.map((sentence) => (
        <li key={String(sentence)}>
          <Text>{String(sentence)}</Text>
        </li>
      ))}
    </ul>
  );
}

interface RunPickerProps {
  readonly runs: readonly RunRow[];
  readonly run: RunRow;
  readonly onPick: (id: string) => void;
}

const RUNS_OFFERED = 20;

function RunPicker({ runs, run, onPick }: RunPickerProps) {
  if (runs.length < 2) return null;
  const now = serviceNow();
  return (
    <Choice
      label="Work"
      value={run.id}
      choices={runs
        .slice(0, RUNS_OFFERED)
        .map((one) => [
          one.id,
          `${runName(one)}, ${sentenceCase(one.state).toLowerCase()}, ${timeText(one.createdAt, now)}`,
        ])}
      isInline
      onChange={onPick}
    />
  );
}

/** The age of a reading counts up without a request. */
function useNow(): Date {
  const [now, setNow] = useState(serviceNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(serviceNow()), 10_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

function Facts({ node, clusterName }: { readonly node: NodeDetail; readonly clusterName: string | null }) {
  const now = useNow();
  const { powerState, wantedPower, powerReadAt, model, controller, hostGroup, drivers, macs, image, labels, presence } =
    node;
  const power = `${sentenceCase(powerState)}${wantedPower !== null && wantedPower !== powerState ? `, ${sentenceCase(wantedPower).toLowerCase()} was asked for` : ""}${powerReadAt === null ? "" : `, read ${agoText(powerReadAt, now)}`}`;
  const facts: readonly (readonly [string, string | null])[] = [
    ["Power", power],
    ["Host group", hostGroup],
    ["Model", model],
    ["Variables", Object.keys(node.variables as object).join(", ")],
    ["Drivers", drivers.map(({ name }) => name).join(", ")],
    ["Controller", controller],
    ["MAC addresses", macs.join(", ")],
    ["Image", image?.name ?? null],
    ["Presence", sentenceCase(presence)],
    ["Labels", labels.map(({ key, value }) => `${key}=${value}`).join(", ")],
    ["Description", node.description],
  ];
  return (
    <section aria-labelledby="facts">
      <h2 id="facts">Machine</h2>
      <EditNode node={node} />
      <dl className="facts">
        {clusterName !== null && (
          <div>
            <dt>Cluster</dt>
            <dd>
              <Link href={clusterPath(clusterName)}>
                <Text>{clusterName}</Text>
              </Link>
            </dd>
          </div>
        )}
        {facts
          .filter(([, value]) => value !== null && value !== "")
          .map(([term, value]) => (
            <div key={term}>
              <dt>{term}</dt>
              <dd>
                <Text>{value}</Text>
              </dd>
            </div>
          ))}
        <div>
          <dt>Registered</dt>
          <dd>
            <Time at={node.createdAt} />
          </dd>
        </div>
      </dl>
    </section>
  );
}

const editedOf = (node: NodeDetail) => ({ revision: node.revision, texts: nodeTexts(node) });

function EditNode({ node }: { readonly node: NodeDetail }) {
  const [isOpen, setOpen] = useState(false);
  const [, navigate] = useLocation();
  const { id, name } = node;
  const editing: Editing = {
    current: editedOf(node),
    fieldsOf: () => NODE_FIELDS,
    read: readNode,
    placeOf: nodePlace,
    async save(input, revision) {
      return (await request("updateNodes", { input: { revisions: [{ node: id, revision }], ...input } })).answer.errors;
    },
    async reread() {
      const { node: now } = await request("nodeDetail", { name });
      return now && editedOf(now);
    },
    onSaved(input) {
      if (typeof input["name"] === "string") navigate(nodePath(input["name"]));
    },
  };
  return (
    <div>
      <WorkButton mutation="updateNodes" onClick={() => setOpen(true)}>
        Edit…
      </WorkButton>
      {isOpen && <EditDialog title={`Edit ${name}`} editing={editing} onClose={() => setOpen(false)} />}
    </div>
  );
}
