/** The queue below the limits of the service: how many places there are, who has them, who waits, in which order. */
import { limitsOf } from "../../engine/engine.ts";
import { runsWaitingForEach, takenPlaces, waitingCounts } from "../../store/slots.ts";
import { readSite } from "../../store/site.ts";
import { builder, needs } from "../base/builder.ts";
import { badInput } from "../base/connection.ts";
import { PhaseEnum } from "../base/enums.ts";
import { RunRef } from "../base/refs.ts";

interface Limit {
  /** As runs name it in `waiting.waitFor`. */
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
    "A limit of the service, with those who have its places and those who wait for one. Limits of one operation are its `maxParallel` and its waves.",
  fields: (t) => ({
    key: t.exposeString("key", { description: "What runs that wait for it call it, as in `phase:clean`." }),
    phase: t.field({
      type: PhaseEnum,
      nullable: true,
      description: "The phase that is limited; null for a controller.",
      resolve: ({ phase }) => phase,
    }),
    controller: t.exposeString("controller", {
      nullable: true,
      description: "The management controller that is limited; null for a phase.",
    }),
    places: t.exposeInt("places", {
      nullable: true,
      description:
        "So many runs may be at work; null when the limit was lifted and those who waited are about to go on.",
    }),
    taken: t.exposeInt("taken", { description: "So many runs are." }),
    waiting: t.exposeInt("waiting", { description: "So many runs wait." }),
    next: t.field({
      type: [RunRef],
      description: "Those who wait, in the order of their turns.",
      args: { first: t.arg.int({ required: true, defaultValue: 10, description: `How many, 1 to ${NEXT_MAX}.` }) },
      resolve: ({ key }, { first }, { load }) => {
        if (first < 1 || first > NEXT_MAX) throw badInput(`\`first\` is 1 to ${NEXT_MAX}.`);
        return load.below(runsWaitingForEach, key, { first }, []);
      },
    }),
  }),
});

builder.queryField("capacity", (t) =>
  t.field({
    type: [CapacityLimitRef],
    ...needs("READ"),
    description:
      "The limits of the service: those of phases, and those of controllers that somebody works through or waits for.",
    resolve: async (_root, _args, { services }): Promise<Limit[]> => {
      const [{ policy }, taken, waiting] = await services.database.snapshot((reader) =>
        Promise.all([readSite(reader), takenPlaces(reader), waitingCounts(reader)]),
      );
      return limitsOf(policy, taken, waiting);
    },
  }),
);
