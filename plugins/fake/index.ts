/**
 * The driver `fake`: simulated machines for demonstrations, tests and benchmarks. The settings of each node script what
 * its machine does: delays, waits, failures at a step, silence, steps that ignore their signal. Ten thousand cost
 * nothing.
 *
 * Power is kept in the driver's memory. After a restart of the service a machine has the power that its node was last
 * seen with.
 */
import type { Driver, PluginHost } from "../../src/drivers/driver.ts";
import { fakeDiscovery } from "./discover.ts";
import { fakeAbilities, fakeBios, fakeConsole, fakeFirmware, fakeMedia } from "./hardware.ts";
import { openJournal } from "./journal.ts";
import { FakeMemory } from "./memory.ts";
import { fakePower } from "./power.ts";
import { ScriptPlayer } from "./script.ts";
import { scriptedStep } from "./scripted-step.ts";
import { fakeSettings, fakeVariables } from "./settings.ts";
import type { FakeSettings } from "./settings.ts";
import { CLEAN_STEPS, DEPLOY_STEPS, INSPECT_STEPS } from "./step-list.ts";

export default function createFake(host: PluginHost): Driver<FakeSettings> {
  const journal = openJournal();
  const memory = new FakeMemory(host.memory);
  const player = new ScriptPlayer(memory);
  const parts = { memory, player, journal };
  return {
    contract: 2,
    name: "fake",
    version: "0.1.0",
    description: "Simulated machines, scripted node by node, for demonstrations and tests.",
    ...(process.env["FAKE_DRIVER_JOURNAL"] && { permissions: ["FILES"] as const }),
    settings: fakeSettings,
    variables: fakeVariables,
    power: fakePower(parts),
    inspect: {
      supportsAbort: true,
      withoutReboot: true,
      steps: INSPECT_STEPS.map((step) => scriptedStep("inspect", step, parts)),
    },
    clean: { supportsAbort: true, steps: CLEAN_STEPS.map((step) => scriptedStep("clean", step, parts)) },
    deploy: { supportsAbort: true, steps: DEPLOY_STEPS.map((step) => scriptedStep("deploy", step, parts)) },
    media: fakeMedia(parts),
    firmware: fakeFirmware,
    bios: fakeBios,
    console: fakeConsole,
    abilities: fakeAbilities,
    discover: fakeDiscovery(journal),
    controllerOf: ({ controller }) => controller ?? "",
    systemOf: ({ serial }) => serial ?? "",
  };
}
