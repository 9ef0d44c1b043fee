/**
 * Requested interrupts of operations and runs, with the deprecated fields that return the same data under earlier
 * names.
 */
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import { builder, enumValues, renamedTo } from "../base/builder.ts";
import type { OutputFields } from "../base/builder.ts";
import { OperationRef, RunRef } from "../base/refs.ts";

interface Interrupted {
  readonly interrupt: Interrupt | null;
  readonly interruptBy: string | null;
  readonly interruptReason: string | null;
}

const INTERRUPTS = {
  STOP: "Let the running step end, then start no further step. The work can be restarted from there.",
  ABORT: "Give up: cancel the running step where it allows that, and end the work.",
};
const InterruptEnum = builder.enumType("Interrupt", {
  description:
    "Request to end unfinished work early. It is stored first and carried out as soon as the running step allows.",
  values: enumValues(INTERRUPTS),
});
const DeprecatedInterruptEnum = builder.enumType("Wish", {
  description: "Earlier name of `Interrupt`, with the same values.",
  values: enumValues(INTERRUPTS),
});

/** Earlier names of the fields that operations and runs share. */
function deprecatedFields<Row extends Interrupted>(t: OutputFields<Row>) {
  return {
    wish: t.field({
      type: DeprecatedInterruptEnum,
      nullable: true,
      deprecationReason: renamedTo("interrupt"),
      description: "Same as `interrupt`.",
      resolve: ({ interrupt }) => interrupt,
    }),
    wishBy: t.string({
      nullable: true,
      deprecationReason: renamedTo("interruptBy"),
      description: "Same as `interruptBy`.",
      resolve: ({ interruptBy }) => interruptBy,
    }),
    wishReason: t.string({
      nullable: true,
      deprecationReason: renamedTo("interruptReason"),
      description: "Same as `interruptReason`.",
      resolve: ({ interruptReason }) => interruptReason,
    }),
  };
}

builder.objectFields(OperationRef, (t) => ({
  interrupt: t.field({
    type: InterruptEnum,
    nullable: true,
    description: "Stop or abort that was requested for the operation; null if none was.",
    resolve: ({ interrupt }) => interrupt,
  }),
  interruptBy: t.exposeString("interruptBy", {
    nullable: true,
    description: "Who requested the interrupt; `engine` if the failure policy did.",
  }),
  interruptReason: t.exposeString("interruptReason", {
    nullable: true,
    description: "Reason given for the interrupt.",
  }),
  ...deprecatedFields(t),
}));

builder.objectFields(RunRef, (t) => ({
  interrupt: t.field({
    type: InterruptEnum,
    nullable: true,
    description:
      "Stop or abort that was requested for this run; null if none was. A stop of the whole operation is shown at the operation only.",
    resolve: ({ interrupt }) => interrupt,
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
  ...deprecatedFields(t),
  wishAt: t.expose("interruptAt", {
    type: "DateTime",
    nullable: true,
    deprecationReason: renamedTo("interruptAt"),
    description: "Same as `interruptAt`.",
  }),
}));
