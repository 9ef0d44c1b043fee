/** Each change of a node, the newest first: who caused it, when and why. */
import { useMemo } from "react";
import { Link } from "wouter";
import { serviceNow } from "../data/clock.ts";
import type { Answers } from "../../requests.ts";
import { fleet, useStore } from "../data/streams.ts";
import { useThrottled } from "../data/use-throttled.ts";
import { Choice, orAll } from "../parts/choice.tsx";
import { Problem, UnknownParameters } from "../parts/notices.tsx";
import { NodeState } from "../parts/state-badge.tsx";
import { Text } from "../parts/text.tsx";
import { TextFilter } from "../parts/text-filter.tsx";
import { Time } from "../parts/time.tsx";
import { usePages } from "../parts/use-pages.ts";
import type { Page } from "../parts/use-pages.ts";
import { ACTIVITY, nodePath, operationPath, useParameters } from "../routes.ts";
import { OPERATION_KINDS, PERIOD_NAMES, transitionFilter } from "../words/operation-filters.ts";
import { sentenceCase } from "../words/states.ts";

const PARAMETERS = { kind: OPERATION_KINDS, period: PERIOD_NAMES, by: null, text: null } as const;
const FIRST = 50;
const PAUSE_MS = 2_000;

type Transition = Answers["activity"]["transitions"]["nodes"][number];

const pageOf = ({ transitions: { nodes, pageInfo } }: Answers["activity"]): Page<Transition> => ({
  items: nodes.toReversed(),
  next: pageInfo.hasPreviousPage ? { before: pageInfo.startCursor } : null,
});

export function ActivityScreen() {
  const { values, unknown, change } = useParameters(PARAMETERS);
  const content = JSON.stringify(values);
  const where = useMemo(() => transitionFilter(values, serviceNow()), [content]);
  // A transition changes its node, which the page follows; another map of nodes is another version.
  const { items } = useStore(fleet);
  const version = useThrottled(useVersion(items), PAUSE_MS);
  const {
    items: transitions,
    next,
    isRead,
    error,
    more,
  } = usePages("activity", {
    variables: { where, last: FIRST },
    version,
    pageOf,
  });
  return (
    <div className="screen">
      <h1>Activity</h1>
      <UnknownParameters unknown={unknown} path={ACTIVITY} />
      <div className="terms">
        <Choice
          label="Verb"
          value={values.kind}
          choices={orAll(OPERATION_KINDS)}
          onChange={(kind) => change({ kind })}
        />
        <Choice
          label="In the last"
          value={values.period}
          choices={orAll(PERIOD_NAMES)}
          onChange={(period) => change({ period })}
        />
        <TextFilter label="By" value={values.by} onChange={(by) => change({ by })} />
        <TextFilter label="Text of node, step or reason" value={values.text} onChange={(text) => change({ text })} />
      </div>
      {error && <Problem error={error} />}
      {isRead && transitions.length === 0 && <p className="quiet">Nothing has happened that matches.</p>}
      <ol className="life">
        {transitions.map((one) => (
          <li key={one.id}>
            <Line transition={one} />
          </li>
        ))}
      </ol>
      {next && (
        <button type="button" onClick={more}>
          Earlier
        </button>
      )}
    </div>
  );
}

/** A number for each map of nodes. */
function useVersion(items: ReadonlyMap<string, unknown>): number {
  return useMemo(() => performance.now(), [items]);
}

function Line({ transition }: { readonly transition: Transition }) {
  const { at, nodeName, to, event, actor, reason, step, operation } = transition;
  return (
    <>
      <Time at={at} />{" "}
      <Link href={nodePath(nodeName)}>
        <Text>{nodeName}</Text>
      </Link>{" "}
      {to === null ? sentenceCase(event) : <NodeState state={to} />}{" "}
      <span className="quiet">
        {step !== null && <>at {step} </>}
        by <Text>{actor}</Text>
        {operation && (
          <>
            {" "}
            for <Link href={operationPath(operation.uuid)}>{sentenceCase(operation.kind).toLowerCase()}</Link>
          </>
        )}
      </span>
      {reason !== null && reason !== "" && (
        <>
          {" "}
          “<Text>{reason}</Text>”
        </>
      )}
    </>
  );
}
