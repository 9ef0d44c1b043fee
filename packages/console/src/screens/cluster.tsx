/** One cluster: its deployment from the first commission to the last change, on one page. */
import { useMemo, useState, useSyncExternalStore } from "react";
import { Link, useLocation } from "wouter";
import type { Answers } from "../../requests.ts";
import { useRequest } from "../data/queries.ts";
import { request } from "../data/request.ts";
import { clusters, fleet, useRunsOfOperation, useStore } from "../data/streams.ts";
import type { ClusterRow, NodeRow, OperationRow, RunRow } from "../data/streams.ts";
import { useThrottled } from "../data/use-throttled.ts";
import { EditDialog, Editor } from "../parts/editor.tsx";
import type { Editing } from "../parts/editor.tsx";
import { NodeCounts } from "../parts/node-counts.tsx";
import { NotFound, Problem, UnknownParameters } from "../parts/notices.tsx";
import { OperationHistory } from "../parts/operation-history.tsx";
import { ClusterState, NodeState } from "../parts/state-badge.tsx";
import { Text } from "../parts/text.tsx";
import { usePages } from "../parts/use-pages.ts";
import type { Page } from "../parts/use-pages.ts";
import { VirtualList } from "../parts/virtual-list.tsx";
import type { Column } from "../parts/virtual-list.tsx";
import { WorkButton, useLack } from "../parts/work-button.tsx";
import { clusterPath, nodePath, nodesPath, useParameters } from "../routes.ts";
import { hostGroupsOf } from "../words/clusters.ts";
import {
  groupFields,
  groupPlace,
  groupTexts,
  readGroups,
  readWanted,
  wantedFields,
  wantedTexts,
  withGroup,
  withoutGroup,
} from "../words/edits.ts";
import type { Edited } from "../words/edits.ts";
import { marksOf } from "../words/nodes.ts";
import { numberText, plural } from "../words/numbers.ts";
import { runText } from "../words/runs.ts";
import type { Proposal } from "../work/outlook.ts";
import { Selected } from "../work/selected.tsx";
import { add, selection, toggle, toggleAll } from "../work/selection.ts";
import { VerbBar } from "../work/verb-bar.tsx";
import { WorkDialog } from "../work/work-dialog.tsx";

const PARAMETERS = {} as const;
const FIRST = 20;
const PAUSE_MS = 1_000;
/** The service compares every node with what the cluster wants. */
const PENDING_MS = 3_000;

export function ClusterScreen({ name }: { readonly name: string }) {
  const { items, isWhole, error } = useStore(clusters);
  const row = [...items.values()].find((cluster) => cluster.name === name);
  if (row) return <Cluster key={row.id} row={row} />;
  if (error) return <NotFound title={name}>{<Problem error={error} />}</NotFound>;
  if (isWhole) return <NoSuchCluster name={name} names={[...items.values()].map((cluster) => cluster.name)} />;
  return (
    <div className="screen" aria-busy="true">
      <h1>
        <Text>{name}</Text>
      </h1>
    </div>
  );
}

const NAMES_OFFERED = 8;

function NoSuchCluster({ name, names }: { readonly name: string; readonly names: readonly string[] }) {
  return (
    <NotFound title={`Cluster ${name.slice(0, 60)} does not exist`}>
      {names.length > 0 && (
        <p>
          Clusters:{" "}
          {names.slice(0, NAMES_OFFERED).map((one) => (
            <Link key={one} href={clusterPath(one)} className="name">
              <Text>{one}</Text>
            </Link>
          ))}
        </p>
      )}
    </NotFound>
  );
}

const pageOf = ({ cluster }: Answers["clusterHistory"]): Page<OperationRow> => ({
  items: cluster?.operations.nodes ?? [],
  next: cluster?.operations.pageInfo.hasNextPage ? { after: cluster.operations.pageInfo.endCursor } : null,
});

function Cluster({ row }: { readonly row: ClusterRow }) {
  const { name, state, nodeCounts } = row;
  const { unknown } = useParameters(PARAMETERS);
  const { items: nodes } = useStore(fleet);
  const members = useMemo(
    () =>
      [...nodes.values()]
        .filter(({ cluster }) => cluster?.name === name)
        .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    [nodes, name],
  );
  const version = useThrottled(JSON.stringify([state, nodeCounts]), PAUSE_MS);
  const history = usePages("clusterHistory", { variables: { name, first: FIRST }, version, pageOf });
  const current = history.items.find(({ finishedAt }) => finishedAt === null) ?? null;
  const { data, error, refetch } = useRequest("clusterDetail", { name }, row.revision);
  const detail = data?.cluster ?? null;
  return (
    <div className="screen">
      <h1>
        <Text>{name}</Text> <ClusterState state={state} />
      </h1>
      <UnknownParameters unknown={unknown} path={clusterPath(name)} />
      <NodeCounts counts={nodeCounts} />
      <Deployment row={row} members={members} />
      <section aria-labelledby="history">
        <h2 id="history">History</h2>
        <OperationHistory pages={history} />
      </section>
      {error && <Problem error={error} onAgain={() => void refetch()} />}
      {detail && <Wanted detail={detail} />}
      <Nodes cluster={name} members={members} detail={detail} operation={current} />
    </div>
  );
}

interface DeploymentProps {
  readonly row: ClusterRow;
  readonly members: readonly NodeRow[];
}

const UNFINISHED = ["DEPLOYING", "REMOVING"];

/** Both buttons are always in one place; a disabled one says why. */
function Deployment({ row: { name, state, revision, nodeCounts }, members }: DeploymentProps) {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const version = useThrottled(JSON.stringify([revision, state, nodeCounts]), PENDING_MS);
  const pending = useRequest("clusterPending", { name }, version).data?.cluster?.pendingChanges;
  const stopRefusal = UNFINISHED.includes(state)
    ? null
    : state === "STOPPING"
      ? "A stop is under way."
      : "No work is unfinished.";
  const ids = useMemo(() => members.map(({ id }) => id), [members]);
  return (
    <section aria-label="Deployment">
      <div className="buttons">
        <WorkButton
          mutation="stop"
          refusal={stopRefusal}
          onClick={() => setProposal({ mutation: "stop", input: { work: { cluster: { name } } }, object: name })}
        >
          Stop deployment…
        </WorkButton>
        <span className="with-reason">
          <WorkButton
            mutation="applyCluster"
            onClick={() => setProposal({ mutation: "applyCluster", input: { cluster: { name } }, object: name })}
          >
            Deploy changes…
          </WorkButton>
          {pending && (
            <small className="quiet">
              {pending.count === 0 && "Every free node is as the cluster wants it."}
              {pending.groups.map(({ reason, nodeCount, needsReinstall }) => (
                <span key={reason} className="line">
                  {plural(nodeCount, "node")}: <Text>{reason}</Text>
                  {needsReinstall && ", only by a new installation"}
                </span>
              ))}
            </small>
          )}
        </span>
      </div>
      <VerbBar target={{ ids, object: name, cluster: name }} verdicts={null} />
      {proposal && <WorkDialog proposal={proposal} onClose={() => setProposal(null)} />}
    </section>
  );
}

type Detail = NonNullable<Answers["clusterDetail"]["cluster"]>;

/** The parts of an editor of a cluster that each of them has. */
function editingOf(
  detail: Detail,
  textsOf: (detail: Detail) => Edited["texts"],
): Pick<Editing, "current" | "save" | "reread"> {
  const { id, name, revision } = detail;
  return {
    current: { revision, texts: textsOf(detail) },
    async save(input, ifRevision) {
      return (await request("updateCluster", { input: { cluster: { id }, ifRevision, ...input } })).answer.errors;
    },
    async reread() {
      const { cluster: now } = await request("clusterDetail", { name });
      return now && { revision: now.revision, texts: textsOf(now) };
    },
  };
}

function Wanted({ detail }: { readonly detail: Detail }) {
  const images = useRequest("images", {}).data?.images.nodes.map(({ name }) => name) ?? [];
  const known = detail.image ? new Set([detail.image.name, ...images]) : images;
  const lack = useLack()("updateCluster");
  return (
    <section aria-labelledby="wanted">
      <h2 id="wanted">Image and variables</h2>
      <Editor
        lack={lack}
        draft={detail.id}
        editing={{
          ...editingOf(detail, wantedTexts),
          fieldsOf: () => wantedFields([...known]),
          read: readWanted,
          placeOf: ([, member]) => member ?? null,
        }}
      />
    </section>
  );
}

interface NodesProps {
  readonly cluster: string;
  readonly members: readonly NodeRow[];
  readonly detail: Detail | null;
  /** That works on the cluster. */
  readonly operation: OperationRow | null;
}

function Nodes({ cluster, members, detail, operation }: NodesProps) {
  const { items } = useRunsOfOperation(operation?.id ?? null);
  const runs = useMemo(() => [...items.values()], [items]);
  return (
    <>
      {detail && <HostGroups members={members} detail={detail} runs={runs} />}
      <Members cluster={cluster} members={members} runs={runs} />
    </>
  );
}

interface GroupsProps {
  readonly members: readonly NodeRow[];
  readonly detail: Detail;
  readonly runs: readonly RunRow[];
}

function HostGroups({ members, detail, runs }: GroupsProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <section aria-labelledby="host-groups">
      <h2 id="host-groups">Host groups</h2>
      <ul className="history">
        {hostGroupsOf(members, runs, detail.hostGroups).map(({ name, counts, rules, waits }) => (
          <li key={name ?? ""} className="history-line">
            <b>{name === null ? "No host group" : <Text>{name}</Text>}</b>
            <NodeCounts counts={counts} />
            {rules.map((rule) => (
              <span key={rule} className="quiet">
                <Text>{rule}</Text>
              </span>
            ))}
            {waits.map((wait) => (
              <span key={wait}>
                <Text>{wait}</Text>
              </span>
            ))}
          </li>
        ))}
      </ul>
      <div className="buttons">
        <WorkButton mutation="updateCluster" onClick={() => setOpen(true)}>
          Edit host groups…
        </WorkButton>
      </div>
      {isOpen && (
        <EditDialog
          title={`Host groups of ${detail.name}`}
          onClose={() => setOpen(false)}
          editing={{
            ...editingOf(detail, ({ hostGroups }) => groupTexts(hostGroups)),
            fieldsOf: groupFields,
            read: readGroups,
            placeOf: groupPlace,
            groups: { add: withGroup, remove: withoutGroup },
          }}
        />
      )}
    </section>
  );
}

interface MemberRow extends NodeRow {
  readonly run: RunRow | undefined;
}

const COLUMNS: readonly Column<MemberRow>[] = [
  {
    name: "Node",
    width: "minmax(120px, 1fr)",
    show: ({ name }) => (
      <Link href={nodePath(name)} tabIndex={-1}>
        <Text>{name}</Text>
      </Link>
    ),
  },
  { name: "State", width: "150px", show: ({ state }) => <NodeState state={state} /> },
  { name: "Host group", width: "minmax(90px, 1fr)", show: ({ hostGroup }) => <Text>{hostGroup}</Text> },
  {
    name: "Now",
    width: "minmax(140px, 3fr)",
    show: (node) => (
      <Text>
        {[node.run ? runText(node.run) : node.lastError?.message, ...marksOf(node)].filter(Boolean).join(" · ")}
      </Text>
    ),
  },
];

interface MembersProps extends Pick<NodesProps, "cluster" | "members"> {
  readonly runs: readonly RunRow[];
}

function Members({ cluster, members, runs }: MembersProps) {
  const [, navigate] = useLocation();
  const open = new Map(runs.filter(({ finishedAt }) => finishedAt === null).map((run) => [run.nodeName, run]));
  const rows = members.map((node) => ({ ...node, run: open.get(node.name) }));
  const selected = useSyncExternalStore(selection.subscribe, selection.get);
  const [removed, setRemoved] = useState<Proposal | null>(null);
  const ids = members.filter(({ id }) => selected.has(id)).map(({ id }) => id);
  return (
    <section aria-labelledby="members" className="fill">
      <h2 id="members">
        Members <b>{numberText(members.length)}</b>
      </h2>
      <p>
        <Link href={nodesPath(`cluster:"${cluster}"`)}>Show them in the list of nodes</Link>, or{" "}
        <Link href={nodesPath("cluster:none")}>add nodes that are in no cluster</Link>
      </p>
      <Selected selected={selected} items={new Map(rows.map((row) => [row.id, row]))} where="cluster">
        {ids.length > 0 && (
          <WorkButton
            mutation="removeMembers"
            onClick={() =>
              setRemoved({
                mutation: "removeMembers",
                ids,
                object: plural(ids.length, "node"),
                input: { cluster: { name: cluster } },
              })
            }
          >
            Remove from the cluster…
          </WorkButton>
        )}
      </Selected>
      {removed && <WorkDialog proposal={removed} onClose={() => setRemoved(null)} />}
      <VirtualList
        label="Members"
        columns={COLUMNS}
        rows={rows}
        idOf={({ id }) => id}
        selection={{ selected, toggle, add, toggleAll }}
        onOpen={({ name }) => navigate(nodePath(name))}
      />
    </section>
  );
}
