/** Expected refusals: one interface, and a type for each set of data that a client needs to react. */
import { ERROR_STATUS } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { NODE_STATES } from "../../lifecycle/node-states.ts";
import { builder } from "./builder.ts";
import { ErrorCodeEnum, NodeStateEnum } from "./enums.ts";
import { NodeRef, OperationRef } from "./refs.ts";

export const UserErrorRef = builder.interfaceRef<Refusal>("UserError").implement({
  description: "Expected refusal of a request. Select `code` and `message` always, and further fields by type.",
  fields: (t) => ({
    code: t.field({ type: ErrorCodeEnum, description: "Machine-readable reason.", resolve: ({ code }) => code }),
    status: t.int({ description: "HTTP status equivalent to the code.", resolve: ({ code }) => ERROR_STATUS[code] }),
    message: t.string({
      description: "What happened, to which object, and what to do; for people.",
      resolve: ({ message }) => message,
    }),
    path: t.stringList({
      nullable: true,
      description:
        'Path to the invalid input, such as `["input", "nodes", "names"]`; null if no single input is at fault.',
      resolve: ({ path }) => (path ? [...path] : null),
    }),
  }),
  resolveType: ({ code }) => {
    switch (code) {
      case "NOT_FOUND":
        return "NotFoundError";
      case "NOT_INTERRUPTIBLE":
        return "NotInterruptibleError";
      case "BUSY":
      case "INVALID_STATE":
      case "IN_MAINTENANCE":
      case "CLUSTER_LOCKED":
      case "STALE_REVISION":
      case "IDEMPOTENCY_MISMATCH":
      case "PROTECTED":
        return "ConflictError";
      default:
        return "SimpleError";
    }
  },
});

builder.objectRef<Refusal>("SimpleError").implement({
  description: "Refusal without further data.",
  interfaces: [UserErrorRef],
});

builder.objectRef<Refusal>("NotFoundError").implement({
  description: "Refusal because named objects do not exist.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    missing: t.stringList({
      description: "All names and IDs in the request that do not exist.",
      resolve: ({ missing }) => [...(missing ?? [])],
    }),
  }),
});

builder.objectRef<Refusal>("ConflictError").implement({
  description:
    "Refusal because the node or cluster is busy, in the wrong state, protected or in maintenance, or was changed concurrently.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "Node that conflicts with the request.",
      resolve: ({ nodeId }, _args, { load }) => (nodeId === undefined ? null : load.node.load(nodeId)),
    }),
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description: "Operation that conflicts with the request.",
      resolve: ({ operationId }, _args, { load }) =>
        operationId === undefined ? null : load.operation.load(operationId),
    }),
    allowedStates: t.field({
      type: [NodeStateEnum],
      nullable: true,
      description: "States in which the verb is allowed; null if the state is not the reason.",
      resolve: ({ allowedStates }) =>
        allowedStates?.filter((state): state is NodeState => state in NODE_STATES) ?? null,
    }),
  }),
});

builder.objectRef<Refusal>("NotInterruptibleError").implement({
  description: "Refusal because the running step must not be interrupted.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    step: t.string({
      description: "Step that must end first, as `interface.name`.",
      resolve: ({ step }) => step ?? "",
    }),
  }),
});
