/** Reading the power state of nodes now. The verb that changes it is in verbs.ts. */
import type { PowerAnswer, PowerAnswers } from "../../../engine/power/power-reader.ts";
import { builder } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import { PowerStateEnum } from "../../base/enums.ts";
import { UserErrorRef } from "../../base/errors.ts";
import { nodeFields, payloadType, refusalFields } from "../../base/payload.ts";
import { NodeSelectorInput, nodeSelector } from "../selectors.ts";
import { DriverCallRef } from "../work/step.ts";

const PowerReadingRef = builder.objectRef<PowerAnswer>("PowerReading").implement({
  description: "Power reading of one node.",
  fields: (t) => ({
    ...nodeFields(t, "The node; null if it has been deleted."),
    powerState: t.expose("state", {
      type: PowerStateEnum,
      nullable: true,
      description: "Power state; null if it could not be read.",
    }),
    driver: t.exposeString("driver", { nullable: true, description: "Driver that answered; null if none did." }),
    driverCalls: t.expose("driverCalls", {
      type: [DriverCallRef],
      description: "Calls of the drivers, if the node names several for power. Empty if it names one.",
    }),
    error: t.expose("refusal", {
      type: UserErrorRef,
      nullable: true,
      description:
        "Reason why it could not be read: BUSY, TIMEOUT, BACKEND_FAILED or UNSUPPORTED_BY_DRIVER. Null if it was read.",
    }),
  }),
});

addMutation("readPower", {
  scope: "OPERATE",
  description:
    "Read the power state of nodes from their BMCs now and wait for the answers, at most 30 seconds. A node with an active run is BUSY; the run reads its power state. To get the power state as last read in the background, select `Node.powerState` instead.",
  input: builder.inputType("ReadPowerInput", {
    description: "Nodes whose power state to read.",
    fields: (t) => ({
      nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of at most 1000 nodes." }),
    }),
  }),
  argument: "Selection of nodes.",
  payload: payloadType<PowerAnswers>(
    "readPower",
    (t) => ({
      results: t.expose("answers", {
        type: [PowerReadingRef],
        description: "One result per node, in the order of the request.",
      }),
      ...refusalFields(t, "Reasons why the whole request was refused."),
    }),
    " `errors` is empty if the request was accepted.",
  ),
  run: (input, engine) => engine.readPower(nodeSelector(input.nodes)),
});
