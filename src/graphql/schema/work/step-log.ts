/** Logs of steps: of a run, of one step, and as a stream. */
import { logStream } from "../../../feed/log/log-stream.ts";
import type { LogStreamItem } from "../../../feed/log/log-stream.ts";
import { lineCounts, logPages } from "../../../store/runs/step-log.ts";
import { builder, needs } from "../../base/builder.ts";
import {
  connectionType,
  connectionWith,
  EMPTY_PAGE,
  numberedRequest,
  pageArgs,
  positionOf,
  sizeWithin,
  TRANSITIONS_PAGE_MAX,
} from "../../base/connection.ts";
import { keyOf, uuidOrNone } from "../../base/ids.ts";
import { RunRef } from "../../base/refs.ts";
import { StepRef, stepName } from "./step.ts";
import { StreamResetRef, notFound } from "../streams/streams.ts";

type Line = Extract<LogStreamItem, { kind: "line" }>;

const TAIL_DEFAULT = 100;
const TAIL_MAX = 1_000;

const LogLineRef = builder.objectRef<Line>("LogLine");
builder.objectType(LogLineRef, {
  description:
    "Line that a driver logged while it ran a step. Secrets are masked, and lines are truncated to 4,000 characters. Never deleted.",
  fields: (t) => ({
    cursor: t.string({
      description: "Number of the line in its run, from 1 without gaps. Pass it as `after`.",
      resolve: ({ row }) => String(row.sequence),
    }),
    at: t.field({ type: "DateTime", description: "Time at which it was logged.", resolve: ({ row }) => row.at }),
    step: t.exposeString("label", { description: "Step, as `interface.name`." }),
    attempt: t.int({ description: "Number of the attempt, from 1.", resolve: ({ row }) => row.attempt }),
    text: t.string({
      description:
        "Text of the line. At most 1,000 lines and 256 KiB are kept per attempt; then a last line states how many were dropped.",
      resolve: ({ row }) => row.text,
    }),
  }),
});

const LogLineConnection = connectionType("LogLine", LogLineRef);

builder.objectField(StepRef, "log", (t) =>
  t.field({
    type: [LogLineRef],
    description: "Newest lines of the step's log, over all attempts, oldest first.",
    args: {
      tail: t.arg.int({
        required: true,
        defaultValue: TAIL_DEFAULT,
        description: `Maximum number of lines, 1 to ${TAIL_MAX}.`,
      }),
    },
    resolve: async ({ planned, index, attempts }, { tail }, { load }) => {
      const most = sizeWithin(TAIL_MAX, "tail", tail);
      const [first] = attempts;
      const rows = first ? await load.logTail.load({ runId: first.runId, step: index, tail: most }) : [];
      return rows.map((row): Line => ({ kind: "line", row, label: stepName(planned) }));
    },
  }),
);

builder.objectField(RunRef, "log", (t) =>
  t.field({
    type: LogLineConnection,
    description: "Log of all steps, oldest first: the same lines and cursors as the subscription `runLog`.",
    args: pageArgs(t.arg, TRANSITIONS_PAGE_MAX),
    resolve: async ({ id, planHash }, args, { load }) => {
      const [page, plan] = await Promise.all([
        load.below(logPages, id, numberedRequest(args), EMPTY_PAGE),
        load.plan.load(planHash),
      ]);
      const line = (row: Line["row"]): Line => ({ kind: "line", row, label: stepName(plan?.steps[row.step]) });
      return connectionWith(
        { ...page, rows: page.rows.map(line) },
        ({ row }) => String(row.sequence),
        () => load.below(lineCounts, id, null, 0),
      );
    },
  }),
);

const RunLogItemRef = builder.unionType("RunLogItem", {
  description: "Item of the stream `runLog`.",
  types: [LogLineRef, StreamResetRef],
  resolveType: ({ kind }) => (kind === "line" ? "LogLine" : "StreamReset"),
});

builder.subscriptionField("runLog", (t) =>
  t.field({
    type: RunLogItemRef,
    ...needs("READ"),
    description:
      "Log of one run, from the first line or after a cursor, until the run is final; then the stream completes. Lines arrive within a second of being logged, without gaps or repetition. An unknown run is the error NOT_FOUND.",
    args: {
      id: t.arg.id({ required: true, description: "Global ID or UUID of the run." }),
      after: t.arg.string({
        description: "Cursor of the last line received; by default the stream starts with the first line.",
      }),
    },
    subscribe: async (_root, { id, after }, { services, load }) => {
      const run = await load.run.load(uuidOrNone(keyOf("Run", id)));
      if (!run) throw notFound(`Run ${JSON.stringify(id)} does not exist.`);
      return logStream(services, run.id, positionOf(after) ?? 0);
    },
    resolve: (item) => item,
  }),
);
