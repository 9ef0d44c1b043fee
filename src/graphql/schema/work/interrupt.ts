/** Requested interrupts of operations and runs. */
import { builder, enumValues } from "../../base/builder.ts";
import { OperationRef, RunRef } from "../../base/refs.ts";

const InterruptEnum = builder.enumType("Interrupt", {
  description:
    "Request to end unfinished work early. It is stored first and carried out as soon as the running step allows.",
  values: enumValues({
    STOP: "Let the running step end, then start no further step. The work can be restarted from there.",
    ABORT: "Give up: cancel the running step where it allows that, and end the work.",
  }),
});

builder.objectFields(OperationRef, (t) => ({
  interrupt: t.expose("interrupt", {
    type: InterruptEnum,
    nullable: true,
    description: "Stop or abort that was requested for the operation; null if none was.",
  }),
  interruptBy: t.exposeString("interruptBy", {
    nullable: true,
    description: "Who requested the interrupt; `engine` if the failure policy did.",
  }),
  interruptReason: t.exposeString("interruptReason", {
    nullable: true,
    description: "Reason given for the interrupt.",
  }),
}));

builder.objectFields(RunRef, (t) => ({
  interrupt: t.expose("interrupt", {
    type: InterruptEnum,
    nullable: true,
    description:
      "Stop or abort that was requested for this run; null if none was. A stop of the whole operation is shown at the operation only.",
  }),
  interruptBy: t.exposeString("interruptBy", {
    nullable: true,
    description: "Who requested the interrupt; `engine` if the failure policy or a timeout did.",
  }),
  interruptReason: t.exposeString("interruptReason", {
    nullable: true,
    description: "Reason given for the interrupt.",
  }),
  interruptAt: t.expose("interruptAt", {
    type: "DateTime",
    nullable: true,
    description: "Time of the request to interrupt.",
  }),
}));
