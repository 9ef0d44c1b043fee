/** The scenarios, in the order in which they run. */
import type { Lab } from "./lab/lab.ts";
import { bootsTheImage } from "./scenarios/machines.ts";

export interface Scenario {
  readonly name: string;
  readonly about: string;
  /** Whether it runs only when it is named. */
  readonly isExtra?: true;
  run(lab: Lab): Promise<void>;
}

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "machines",
    about: "the lab alone: each BMC starts its machine, which boots the image from its disk",
    isExtra: true,
    async run(lab) {
      await lab.atMostTwo(lab.machines, (machine) => bootsTheImage(machine, lab.artifacts.raw, lab.report));
    },
  },
];
