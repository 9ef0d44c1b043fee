/** Operations, the newest first, by kind, state, actor, time and text. */
import { useMemo } from "react";
import { serviceNow } from "../data/clock.ts";
import type { Answers } from "../../requests.ts";
import { running, useStore } from "../data/streams.ts";
import type { OperationRow } from "../data/streams.ts";
import { useThrottled } from "../data/use-throttled.ts";
import { Choice, orAll } from "../parts/choice.tsx";
import { UnknownParameters } from "../parts/notices.tsx";
import { OperationHistory } from "../parts/operation-history.tsx";
import { TextFilter } from "../parts/text-filter.tsx";
import { usePages } from "../parts/use-pages.ts";
import type { Page } from "../parts/use-pages.ts";
import { OPERATIONS, useParameters } from "../routes.ts";
import { OPERATION_KINDS, OPERATION_STATES, PERIOD_NAMES, operationFilter } from "../words/operation-filters.ts";

const PARAMETERS = {
  kind: OPERATION_KINDS,
  state: OPERATION_STATES,
  period: PERIOD_NAMES,
  by: null,
  text: null,
} as const;
const FIRST = 30;
const PAUSE_MS = 2_000;

export const operationsPage = ({ operations }: Answers["operations"]): Page<OperationRow> => ({
  items: operations.nodes,
  next: operations.pageInfo.hasNextPage ? { after: operations.pageInfo.endCursor } : null,
});

export function OperationsScreen() {
  const { values, unknown, change } = useParameters(PARAMETERS);
  const content = JSON.stringify(values);
  const filter = useMemo(() => operationFilter(values, serviceNow()), [content]);
  // The list is read again as soon as an operation begins, ends or changes its counts.
  const version = useThrottled([...useStore(running).items.values()].map(changeOf).join(), PAUSE_MS);
  const pages = usePages("operations", { variables: { filter, first: FIRST }, version, pageOf: operationsPage });
  return (
    <div className="screen">
      <h1>Operations</h1>
      <UnknownParameters unknown={unknown} path={OPERATIONS} />
      <div className="terms">
        <Choice
          label="Kind"
          value={values.kind}
          choices={orAll(OPERATION_KINDS)}
          onChange={(kind) => change({ kind })}
        />
        <Choice
          label="State"
          value={values.state}
          choices={orAll(OPERATION_STATES)}
          onChange={(state) => change({ state })}
        />
        <Choice
          label="In the last"
          value={values.period}
          choices={orAll(PERIOD_NAMES)}
          onChange={(period) => change({ period })}
        />
        <TextFilter label="Requested by" value={values.by} onChange={(by) => change({ by })} />
        <TextFilter label="Text of the reason or failure" value={values.text} onChange={(text) => change({ text })} />
      </div>
      <OperationHistory pages={pages} />
    </div>
  );
}

const changeOf = ({ id, state, finishedCount }: OperationRow) => `${id} ${state} ${finishedCount}`;
