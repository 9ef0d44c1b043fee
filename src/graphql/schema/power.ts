/** Reading the power of nodes now. What changes it is a verb (verbs.ts). */
import type { PowerAnswer, PowerAnswers } from "../../engine/power/power-reader.ts";
import { QueryRef, builder, needs } from "../base/builder.ts";
import { PowerStateEnum } from "../base/enums.ts";
import { UserErrorRef } from "../base/errors.ts";
import { NodeRef } from "../base/refs.ts";
import { NodeSelectorInput, nodeSelector } from "./selectors.ts";

const ReadPowerInput = builder.inputType("ReadPowerInput", {
  description: "Read the power of nodes.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Which nodes, at most 1000." }),
  }),
});

const PowerReadingRef = builder.objectRef<PowerAnswer>("PowerReading").implement({
  description: "Answer of one node, in the order asked.",
  fields: (t) => ({
    ref: t.exposeString("ref", { description: "What the request called the node: name or UUID." }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "The node that was asked, null if it has been deleted since.",
      resolve: ({ nodeId }, _args, { load }) => load.node.load(nodeId),
    }),
    powerState: t.field({
      type: PowerStateEnum,
      nullable: true,
      description: "Its power; null: it could not be read.",
      resolve: ({ state }) => state,
    }),
    error: t.field({
      type: UserErrorRef,
      nullable: true,
      description: "Why it could not be read: BUSY, TIMEOUT, BACKEND_FAILED, UNSUPPORTED_BY_DRIVER.",
      resolve: ({ refusal }) => refusal,
    }),
  }),
});

const ReadPowerPayloadRef = builder.objectRef<PowerAnswers>("ReadPowerPayload").implement({
  description: "Answer to a reading of power. `errors` is empty when it was tried.",
  fields: (t) => ({
    results: t.field({
      type: [PowerReadingRef],
      description: "One answer per node.",
      resolve: ({ answers }) => [...answers],
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why nothing was read.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
  }),
});

builder.mutationField("readPower", (t) =>
  t.field({
    type: ReadPowerPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Ask BMCs for the power of their nodes now, and wait for the answers, half a minute at most. Nodes that are at work are BUSY: their power is seen to by that. In the background it is read anyway; see `Node.powerState`.",
    args: { input: t.arg({ type: ReadPowerInput, required: true, description: "Which nodes." }) },
    resolve: (_root, { input }, { services }) => services.engine.readPower(nodeSelector(input.nodes)),
  }),
);
