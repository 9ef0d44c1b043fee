/** The scenarios, in the order in which they run. Each leaves its nodes at rest, in any state. */
import { discover } from "./lab/nodes.ts";
import type { Lab } from "./lab/lab.ts";
import { startsItsEntry } from "./scenarios/boot-entry.ts";
import { erasesEveryDisk } from "./scenarios/erasure.ts";
import { failsOnBadImages, failsOnDiskErrors, failsWithoutCable, survivesDeadMachine } from "./scenarios/faults.ts";
import { abortsWhileWriting, stopsBeforeTheCall, stopsBetweenNodes, survivesKill } from "./scenarios/interrupts.ts";
import { live } from "./scenarios/life.ts";
import { bootsTheImage } from "./scenarios/machines.ts";
import { configuresOverSsh } from "./scenarios/plays.ts";
import { hidesSecrets } from "./scenarios/secrets.ts";
import { installOne } from "./scenarios/short.ts";

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
  {
    name: "short",
    about: "one machine is installed by virtual media, calls home, is logged in to, and is undeployed",
    isExtra: true,
    run: installOne,
  },
  {
    name: "life-uefi",
    about: "UEFI, by virtual media and by network boot: from discovery to the end of service",
    run: (lab) => live(lab, [lab.machine("e2e-redfish-1"), lab.machine("e2e-ipmi-1")]),
  },
  {
    name: "life-bios",
    about: "UEFI by virtual media and BIOS by network boot: from discovery to the end of service",
    run: (lab) => live(lab, [lab.machine("e2e-redfish-2"), lab.machine("e2e-ipmi-2")]),
  },
  {
    name: "plays",
    about: "one machine is installed by the agent, and a play configures it over SSH; needs ansible-core",
    isExtra: true,
    run: configuresOverSsh,
  },
  { name: "abort", about: "abort while the image is written", run: abortsWhileWriting },
  { name: "kill", about: "kill -9 of the service while the image is written", run: survivesKill },
  { name: "stop", about: "stop between two nodes, and restart", run: stopsBetweenNodes },
  { name: "stop-late", about: "stop when the image is written, and restart", run: stopsBeforeTheCall },
  { name: "images", about: "faults of images and of their server", run: failsOnBadImages },
  { name: "erasure", about: "canaries on a second, a removable and a read-only disk", run: erasesEveryDisk },
  { name: "boot-entry", about: "two disks, of which the firmware prefers the empty one", run: startsItsEntry },
  { name: "disk", about: "a disk with errors", run: failsOnDiskErrors },
  { name: "dead", about: "a machine that dies while the image is written", run: survivesDeadMachine },
  { name: "secrets", about: "secrets of one life are found nowhere but where they belong", run: hidesSecrets },
  { name: "cable", about: "a cable that is cut while the image is written", run: failsWithoutCable },
];

/** Machines as nodes: what every scenario but `machines` begins with. */
export async function registerAll(lab: Lab): Promise<void> {
  await lab.report.scenario("discovery: four machines are found at the addresses of their BMCs", async () => {
    await discover(lab.api, lab.machines);
    for (const { name } of lab.machines) {
      const { state } = await lab.api.node(name);
      lab.report.check(`${name} is registered`, state === "ENROLLED", state);
    }
  });
}
