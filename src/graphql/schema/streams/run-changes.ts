/** The subscription `runChanges`. */
import { runChanges } from "../../../feed/kinds/run-changes.ts";
import type { RunsOf } from "../../../store/runs/runs.ts";
import { builder, needs } from "../../base/builder.ts";
import { badInput } from "../../base/connection.ts";
import type { Context } from "../../base/context.ts";
import { RunChangeFieldEnum } from "../../base/enums.ts";
import { keyOf, uuidOrNone } from "../../base/ids.ts";
import { RunRef } from "../../base/refs.ts";
import { beginArgs, beginning, changeKey, changeUnion } from "./change-streams.ts";
import { nodeId, NodeRefInput } from "../selectors.ts";
import { notFound } from "./streams.ts";

const RunChangeRef = changeUnion({
  name: "Run",
  field: "run",
  type: RunRef,
  changed: RunChangeFieldEnum,
  texts: {
    upserted: "Run as it is after a change, or as it was when the stream started.",
    isNew: "it is part of a snapshot, or was created",
    left: null,
  },
  leftMembers: [],
});

type Choice = {
  readonly operation?: string | null | undefined;
  readonly node?: typeof NodeRefInput.$inferInput | null | undefined;
};

async function runsOf({ operation, node }: Choice, { services, load }: Context): Promise<RunsOf> {
  if ((operation == null) === (node == null))
    throw badInput("Give either `operation` or `node`: a stream has the runs of one of them.");
  if (operation != null) {
    const found = await load.operation.load(uuidOrNone(keyOf("Operation", operation)));
    if (!found) throw notFound(`Operation ${JSON.stringify(operation)} does not exist.`);
    return { operationId: found.id };
  }
  const id = uuidOrNone(node ? await nodeId(node, services.database.reader) : "");
  if (!(await load.node.load(id)))
    throw notFound(`Node ${JSON.stringify(Object.values(node ?? {})[0])} does not exist.`);
  return { nodeId: id };
}

builder.subscriptionField("runChanges", (t) =>
  t.field({
    type: RunChangeRef,
    ...needs("READ", { eventKey: changeKey }),
    description:
      "Every visible change of the runs of one operation or of one node, in commit order and without gaps: their beginning and end, steps, waits, interrupts and progress. Give exactly one of `operation` and `node`; one that does not exist is the error NOT_FOUND. With `snapshot: true`, all its runs come first. With `after`, the stream continues after a cursor. With neither, it starts now. Several changes of a run are one item, at most five a second.",
    args: {
      operation: t.arg.id({ description: "Global ID or UUID of the operation." }),
      node: t.arg({ type: NodeRefInput, description: "The node; its name is looked up when the stream starts." }),
      ...beginArgs(t.arg, "a snapshot of all runs of the operation or the node"),
    },
    subscribe: async (_root, { operation, node, ...begin }, context) =>
      runChanges(context.services, { ...beginning(begin), of: await runsOf({ operation, node }, context) }),
    resolve: (item) => item,
  }),
);
