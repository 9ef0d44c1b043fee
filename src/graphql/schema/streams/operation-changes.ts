/** The subscription `operationChanges`. */
import { operationChanges } from "../../../feed/kinds/operation-changes.ts";
import { exceedsOperations } from "../../../store/operations/operation-lists.ts";
import { builder, needs } from "../../base/builder.ts";
import { OperationChangeFieldEnum } from "../../base/enums.ts";
import { OperationRef } from "../../base/refs.ts";
import { LIMITS, beyond } from "../../base/request-limits.ts";
import { beginArgs, beginning, changeKey, changeUnion } from "./change-streams.ts";
import { OperationFilterInput, streamOperationFilter } from "../work/operation-filter.ts";

const OperationChangeRef = changeUnion({
  name: "Operation",
  field: "operation",
  type: OperationRef,
  changed: OperationChangeFieldEnum,
  texts: {
    upserted: "Operation that matches the filter, as it is after a change, or as it was when the stream started.",
    isNew: "it is part of a snapshot, was accepted, or has begun to match the filter",
    left: "Operation that no longer matches the filter. Ignore it if you do not have the operation: it may have matched for a moment only.",
  },
  leftMembers: ["uuid"],
});

builder.subscriptionField("operationChanges", (t) =>
  t.field({
    type: OperationChangeRef,
    ...needs("READ", { eventKey: changeKey }),
    description:
      "Every visible change of matching operations, in commit order and without gaps: their beginning and end, state, progress, waves and interrupts. With `snapshot: true`, all matching operations come first, newest first, at most 50,000: filter by `states` or `createdSince`, because all operations since the installation match otherwise; more are the error LIMIT_EXCEEDED. With `after`, the stream continues after a cursor. With neither, it starts now. Several changes of an operation are one item, at most five a second.",
    args: {
      filter: t.arg({
        type: OperationFilterInput,
        description:
          "Only operations that match; by default all. One that stops matching is sent once as `OperationLeft`. Names are looked up when the stream starts, and one that does not exist is the error NOT_FOUND. At most 65,536 characters as JSON.",
      }),
      ...beginArgs(t.arg, "a snapshot of all matching operations"),
    },
    subscribe: async (_root, { filter, ...begin }, { services }) => {
      const { reader } = services.database;
      const request = { ...beginning(begin), filter: await streamOperationFilter(filter, reader) };
      if (request.snapshot && (await exceedsOperations(reader, request.filter, LIMITS.snapshot)))
        throw beyond("snapshot");
      return operationChanges(services, request);
    },
    resolve: (item) => item,
  }),
);
