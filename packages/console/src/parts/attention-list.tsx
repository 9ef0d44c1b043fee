/** The groups that need a person, what is broken first, each with the action that may help. */
import { useId, useState } from "react";
import { Link } from "wouter";
import type { Attention, AttentionGroup } from "../data/streams.ts";
import { nodePath, nodesPath, operationPath } from "../routes.ts";
import { byUrgency, filterOf, groupKey, groupText } from "../words/attention.ts";
import { numberText, plural } from "../words/numbers.ts";
import { sentenceCase } from "../words/states.ts";
import { WORK, isWork } from "../words/verbs.ts";
import type { Proposal } from "../work/outlook.ts";
import { WorkDialog } from "../work/work-dialog.tsx";
import { NodeState } from "./state-badge.tsx";
import { Text } from "./text.tsx";
import { Time } from "./time.tsx";
import { WorkButton } from "./work-button.tsx";

interface AttentionListProps {
  readonly title: string;
  readonly answer: Attention;
  /** Number of groups. */
  readonly shown?: number;
}

export function AttentionList({
  title,
  answer: { nodeCount, groups, groupCount },
  shown = Infinity,
}: AttentionListProps) {
  const id = useId();
  const first = byUrgency(groups).slice(0, shown);
  return (
    <section aria-labelledby={id} className="attention">
      <h2 id={id}>
        {title} <b>{numberText(nodeCount)}</b>
      </h2>
      <GroupList groups={first} />
      {groupCount > first.length && <p>and {plural(groupCount - first.length, "other group")}</p>}
    </section>
  );
}

/** Groups of nodes with the same cause. */
export function GroupList({ groups }: { readonly groups: readonly AttentionGroup[] }) {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  return (
    <>
      <ul className="groups">
        {groups.map((group) => (
          <Group key={groupKey(group)} group={group} onPropose={setProposal} />
        ))}
      </ul>
      {proposal && <WorkDialog proposal={proposal} onClose={() => setProposal(null)} />}
    </>
  );
}

interface GroupProps {
  readonly group: AttentionGroup;
  readonly onPropose: (proposal: Proposal) => void;
}

const NAMES_SHOWN = 3;

function Group({ group, onPropose }: GroupProps) {
  const { kind, nodeCount, nodes, since, remedy, operation, suggestion } = group;
  const proposal = suggestion && proposalOf(group);
  const rest = nodeCount - nodes.length;
  const filter = filterOf(group);
  return (
    <li data-kind={kind}>
      <div className="group-line">
        <span className="state" data-family={kind === "FAILED" || kind === "FAULT" ? "failed" : "waiting"}>
          <b>{numberText(nodeCount)}</b> × <Text>{groupText(group)}</Text>
        </span>
        {proposal && (
          <WorkButton mutation={proposal.mutation} onClick={() => onPropose(proposal)}>
            {WORK[proposal.mutation].name.replace(/ of$/, "")}…
          </WorkButton>
        )}
      </div>
      <details>
        <summary>
          {nodes
            .slice(0, NAMES_SHOWN)
            .map(({ name }) => name)
            .join(", ")}
          {nodeCount > NAMES_SHOWN && ` and ${numberText(nodeCount - NAMES_SHOWN)} more`}
        </summary>
        <p>
          <Text>{remedy}</Text> Since <Time at={since} />.
          {operation && (
            <>
              {" "}
              <Link href={operationPath(operation.uuid)}>{sentenceCase(operation.kind)}</Link>
            </>
          )}
        </p>
        <ul className="names">
          {nodes.map(({ id, name, state }) => (
            <li key={id}>
              <Link href={nodePath(name)}>{name}</Link> <NodeState state={state} />
            </li>
          ))}
          {rest > 0 && (
            <li>
              {filter === null ? (
                `and ${numberText(rest)} more`
              ) : (
                <Link href={nodesPath(filter)}>and {numberText(rest)} more</Link>
              )}
            </li>
          )}
        </ul>
      </details>
    </li>
  );
}

/** For all nodes of the group if not all are named; null if the dialog does not know the mutation. */
function proposalOf({ suggestion, nodes, nodeCount, kind }: AttentionGroup): Proposal | null {
  if (suggestion === null || !isWork(suggestion.mutation)) return null;
  const { mutation, input, inputForAll } = suggestion;
  const isAll = nodeCount > nodes.length && inputForAll !== null;
  const count = isAll ? nodeCount : nodes.length;
  return {
    mutation,
    input: (isAll ? inputForAll : input) as Proposal["input"],
    object: plural(count, kind === "FAILED" ? "failed node" : "node"),
  };
}
