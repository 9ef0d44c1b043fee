/** `Operation.failures`: the failed runs of an operation, in groups with the same cause. */
import { NO_FAILURES, operationFailures } from "../../../store/operations/operation-failures.ts";
import type { OperationFailures } from "../../../store/operations/operation-failures.ts";
import type { OperationRow } from "../../../store/operations/operations.ts";
import { builder } from "../../base/builder.ts";
import { OperationRef } from "../../base/refs.ts";
import { AttentionGroupRef, groupArgs, groupLimits } from "../fleet/attention-groups.ts";

interface Failures {
  readonly operation: OperationRow;
  readonly found: OperationFailures;
}

const OperationFailuresRef = builder.objectRef<Failures>("OperationFailures").implement({
  description: "Failed runs of an operation by cause, clean-up runs included; for a discovery, failed addresses.",
  fields: (t) => ({
    groups: t.field({
      type: [AttentionGroupRef],
      description: "The groups of most nodes; each has the kind FAILED.",
      resolve: ({ operation, found }) => found.groups.map((group) => ({ ...group, runsOf: operation })),
    }),
    groupCount: t.int({ description: "Number of all groups.", resolve: ({ found }) => found.groupCount }),
    otherGroupCount: t.int({
      description: "Number of groups that `first` leaves out.",
      resolve: ({ found }) => found.groupCount - found.groups.length,
    }),
    nodeCount: t.int({
      description: "Number of different nodes in all groups; for a discovery, number of addresses.",
      resolve: ({ found }) => found.nodeCount,
    }),
    openCount: t.int({
      description: "Number of failed runs in all groups that no later work has followed.",
      resolve: ({ found }) => found.openCount,
    }),
  }),
});

builder.objectField(OperationRef, "failures", (t) =>
  t.field({
    type: OperationFailuresRef,
    description: "Failed runs in groups with the same code, step and driver, also while the operation runs.",
    args: groupArgs(t.arg),
    resolve: async (operation, args, { load }) => ({
      operation,
      found: await load.below(operationFailures, operation.id, groupLimits(args), NO_FAILURES),
    }),
  }),
);
