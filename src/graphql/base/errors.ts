/** Expected refusals as types: one interface, a type for each set of data that a client needs to act on it. */
import { ERROR_STATUS } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { NODE_STATES } from "../../lifecycle/node-states.ts";
import { builder } from "./builder.ts";
import { ErrorCodeEnum, NodeStateEnum } from "./enums.ts";
import { NodeRef, OperationRef } from "./refs.ts";

export const UserErrorRef = builder.interfaceRef<Refusal>("UserError").implement({
  description: "An expected refusal. Select `code` and `message` always, the rest by type.",
  fields: (t) => ({
    code: t.field({ type: ErrorCodeEnum, description: "Machine-readable reason.", resolve: ({ code }) => code }),
    status: t.int({ description: "HTTP status the code stands for.", resolve: ({ code }) => ERROR_STATUS[code] }),
    message: t.string({
      description: "What happened, to what, and what to do; for people.",
      resolve: ({ message }) => message,
    }),
    path: t.stringList({
      nullable: true,
      description: 'Path to the offending input, e.g. `["input", "nodes", "names"]`.',
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
  description: "A refusal without further data.",
  interfaces: [UserErrorRef],
});

builder.objectRef<Refusal>("NotFoundError").implement({
  description: "Named things that do not exist.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    missing: t.stringList({
      description: "What was asked for and is not there: all of it.",
      resolve: ({ missing }) => [...(missing ?? [])],
    }),
  }),
});

builder.objectRef<Refusal>("ConflictError").implement({
  description: "The node or cluster is busy, in the wrong state, marked, or was changed meanwhile.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "The node in the way.",
      resolve: ({ nodeId }, _args, { load }) => (nodeId === undefined ? null : load.node.load(nodeId)),
    }),
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description: "The operation in the way.",
      resolve: ({ operationId }, _args, { load }) =>
        operationId === undefined ? null : load.operation.load(operationId),
    }),
    allowedStates: t.field({
      type: [NodeStateEnum],
      nullable: true,
      description: "States in which the verb is allowed.",
      resolve: ({ allowedStates }) =>
        allowedStates?.filter((state): state is NodeState => state in NODE_STATES) ?? null,
    }),
  }),
});

builder.objectRef<Refusal>("NotInterruptibleError").implement({
  description: "The running step must not be interrupted.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    step: t.string({ description: "The step that must end first.", resolve: ({ step }) => step ?? "" }),
  }),
});
