/** The groups that need a person, what is broken first, each with the action that may help. */
import { useState } from "react";
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

export function AttentionList({ answer }: { readonly answer: Attention }) {
  const { nodeCount, groups, otherGroupCount } = answer;
  if (groups.length === 0) return <p className="well">Nothing needs attention.</p>;
  return (
    <section aria-labelledby="attention" className="attention">
      <h2 id="attention">
        Needs attention <b>{numberText(nodeCount)}</b>
      </h2>
      <GroupList groups={byUrgency(groups)} />
      {otherGroupCount > 0 && <p>and {plural(otherGroupCount, "other group")}</p>}
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
          <button type="button" onClick={() => onPropose(proposal)}>
            {WORK[proposal.mutation].name.replace(/ of$/, "")}…
          </button>
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
