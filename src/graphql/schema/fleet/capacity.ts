/** Capacity limits of the service: their slots, the runs that use them, and the queue for them. */
import { limitsOf } from "../../../engine/views.ts";
import { runsWaitingForEach, takenSlots, waitingCounts } from "../../../store/runs/slots.ts";
import { readSite } from "../../../store/site.ts";
import { builder, needs } from "../../base/builder.ts";
import { sizeWithin } from "../../base/connection.ts";
import { PhaseEnum } from "../../base/enums.ts";
import { RunRef } from "../../base/refs.ts";

interface Limit {
  /** As in `Waiting.waitFor`. */
  readonly key: string;
  readonly phase: "verify" | "inspect" | "clean" | "deploy" | "undeploy" | null;
  readonly controller: string | null;
  readonly places: number | null;
  readonly taken: number;
  readonly waiting: number;
}

const NEXT_MAX = 100;

const CapacityLimitRef = builder.objectRef<Limit>("CapacityLimit").implement({
  description:
    "Capacity limit of the service with its slots. The limits of a single operation are its `maxParallel` and its waves.",
  fields: (t) => ({
    key: t.exposeString("key", {
      description: "Key of the limit, such as `phase:clean`; the same as in `Waiting.waitFor`.",
    }),
    phase: t.expose("phase", {
      type: PhaseEnum,
      nullable: true,
      description: "Limited phase; null if the limit is for a controller.",
    }),
    controller: t.exposeString("controller", {
      nullable: true,
      description: "Limited management controller; null if the limit is for a phase.",
    }),
    places: t.exposeInt("places", {
      nullable: true,
      description:
        "Number of slots: the maximum number of runs at the same time. Null if the limit was removed and the waiting runs are about to continue.",
    }),
    taken: t.exposeInt("taken", { description: "Number of slots in use." }),
    waiting: t.exposeInt("waiting", { description: "Number of runs that wait for a slot." }),
    next: t.field({
      type: [RunRef],
      description: "Runs that wait for a slot, in the order in which they get one.",
      args: {
        first: t.arg.int({ required: true, defaultValue: 10, description: `Number of runs, 1 to ${NEXT_MAX}.` }),
      },
      resolve: ({ key }, { first }, { load }) =>
        load.below(runsWaitingForEach, key, { first: sizeWithin(NEXT_MAX, "first", first) }, []),
    }),
  }),
});

builder.queryField("capacity", (t) =>
  t.field({
    type: [CapacityLimitRef],
    ...needs("READ"),
    description:
      "Capacity limits of the service: all limits of phases, and the limits of controllers that are in use or waited for.",
    resolve: async (_root, _args, { services }): Promise<Limit[]> => {
      const { reader } = services.database;
      const [{ policy }, taken, waiting] = await Promise.all([
        readSite(reader),
        takenSlots(reader),
        waitingCounts(reader),
      ]);
      return limitsOf(policy, taken, waiting);
    },
  }),
);
