/** Expected refusals: one interface, and a type for each set of data that a client needs to react. */
import { ERROR_STATUS } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { NODE_STATES } from "../../lifecycle/node-states.ts";
import { builder } from "./builder.ts";
import { ErrorCodeEnum, ImageMismatchEnum, NodeStateEnum } from "./enums.ts";
import { nodeField, operationField } from "./shared-fields.ts";

/** Names in `NotFoundError.missing`: aliases of the field repeat them. */
const MISSING_MAX = 100;

export const UserErrorRef = builder.interfaceRef<Refusal>("UserError").implement({
  description: "Expected refusal of a request. Select `code` and `message` always, and further fields by type.",
  fields: (t) => ({
    code: t.expose("code", { type: ErrorCodeEnum, description: "Machine-readable reason." }),
    status: t.int({ description: "HTTP status equivalent to the code.", resolve: ({ code }) => ERROR_STATUS[code] }),
    message: t.exposeString("message", {
      description: "What happened, to which object, and what to do; for people.",
    }),
    path: t.stringList({
      nullable: true,
      description:
        'Path to the invalid input, such as `["input", "nodes", "names"]`; null if no single input is at fault.',
      resolve: ({ path }) => (path ? [...path] : null),
    }),
    count: t.int({
      description:
        "Number of nodes that this error stands for; 1 if it stands for itself. In `errors` of a payload, nodes that are refused with the same code, unknown names included, have one error together, whose other data is that of the first of them; `results` has the error of each node.",
      resolve: ({ nodes }) => nodes?.count ?? 1,
    }),
    refs: t.stringList({
      description: "Names or IDs of the first 10 of these nodes; empty if the error does not stand for several nodes.",
      resolve: ({ nodes }) => [...(nodes?.refs ?? [])],
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
      case "MAC_TAKEN":
      case "IDENTITY_CONFLICT":
      case "CLUSTER_LOCKED":
      case "STALE_REVISION":
      case "IDEMPOTENCY_MISMATCH":
      case "IN_USE":
      case "PROTECTED":
        return "ConflictError";
      case "CAPACITY":
        return "CapacityError";
      case "IMAGE_UNFIT":
      case "IMAGE_TOO_LARGE":
        return "ImageUnfitError";
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
      description: "Names and IDs in the request that do not exist; the first 100 of them.",
      resolve: ({ missing = [] }) => missing.slice(0, MISSING_MAX),
    }),
    missingCount: t.int({
      description: "Number of all names and IDs in the request that do not exist.",
      resolve: ({ missing = [] }) => missing.length,
    }),
  }),
});

builder.objectRef<Refusal>("CapacityError").implement({
  description: "Refusal because a limit is reached or too few nodes are free. Try again later.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    available: t.exposeInt("available", {
      nullable: true,
      description: "For a selection by `pick`: number of nodes that are free. Otherwise null.",
    }),
  }),
});

builder.objectRef<Refusal>("ImageUnfitError").implement({
  description: "Refusal because the image does not fit the machine, as far as its inventory and settings say.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    mismatch: t.field({
      type: ImageMismatchEnum,
      description: "Property of the image that does not fit.",
      resolve: ({ imageMismatch = "SIZE" }) => imageMismatch,
    }),
    node: nodeField(t, "Node that the image does not fit; the first one if there are several."),
  }),
});

builder.objectRef<Refusal>("ConflictError").implement({
  description:
    "Refusal because the object is busy, in use, in the wrong state, protected or in maintenance, or was changed concurrently.",
  interfaces: [UserErrorRef],
  fields: (t) => ({
    node: nodeField(t, "Node that conflicts with the request; the first one if there are several."),
    operation: operationField(t, "Operation that conflicts with the request; the first one if there are several."),
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
