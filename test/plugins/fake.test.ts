/** The driver `fake` passes the conformance suite. */
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import createFake from "../../plugins/fake/index.ts";
import { fakeSettings } from "../../plugins/fake/settings.ts";
import { conformance } from "../../packages/driver/src/conformance/conformance.ts";
import { Deadline } from "../../src/drivers/deadline.ts";
import { createPool } from "../../src/drivers/isolation/pool.ts";
import { loadPlugins } from "../../src/drivers/load.ts";
import { eventually } from "../support/eventually.ts";

describe("driver fake", () => {
  const address = "10.0.0.7";
  const checks = conformance({
    factory: createFake,
    settings: { password: "correct-horse", controller: address },
    live: true,
    refused: { refusesLogin: true, password: "wrong-horse" },
    liveSeconds: 5,
    steps: [
      { interface: "clean", step: "update_firmware", args: { version: "2.1" } },
      { interface: "clean", step: "erase_disks" },
      { interface: "deploy", step: "prepare" },
    ],
    discovery: {
      address,
      settings: { password: "correct-horse", dead: ["10.0.0.8"] },
      refused: { password: "wrong-horse", refusesLogin: [address] },
      dead: "10.0.0.8",
    },
  });

  // A check that fails throws a message about the driver.
  test.each(checks)("driver fake $title", async (check) => expect(check.run()).resolves.toBeUndefined(), 60_000);
});

test("driver fake: a delay that is aborted leaves no timer behind", async () => {
  const log = pino({ enabled: false });
  await using pool = createPool({ workers: 1, log });
  await using registry = await loadPlugins(["fake"], log, { pool });
  const cut = new AbortController();
  const reading = registry.get("fake")?.power.read({
    node: { id: "n", name: "n", powerState: "OFF", labels: {} },
    settings: fakeSettings.parse({ steps: { "power.read": { delayMs: 60_000 } } }),
    signal: cut.signal,
    deadline: new Deadline(60_000),
    log() {},
    timed(_name, work) {
      cut.abort(new Error("aborted by a test"));
      return work();
    },
  });
  await expect(reading).rejects.toThrow("aborted by a test");
  await eventually("it is", () => pool.figures.processes.idle === 1);
});

describe("settings of the driver fake", () => {
  test("settings of the driver fake are all optional", () => {
    expect(fakeSettings.parse({})).toEqual({
      delayMs: 0,
      waitSeconds: 0,
      steps: {},
      dead: false,
      refusesLogin: false,
      powerDelayMs: 0,
      lacks: [],
      outputs: false,
    });
  });

  test.each([
    ["a misspelt field", { delayMS: 5 }],
    ["a script for an unknown step", { steps: { write_image: {} } }],
    ["a script with a misspelt field", { steps: { "deploy.write_image": { fails: "x" } } }],
    ["a negative delay", { delayMs: -1 }],
    ["an empty password", { password: "" }],
  ])("settings of the driver fake with %s are refused", (_what, settings) => {
    expect(fakeSettings.safeParse(settings).success).toBe(false);
  });
});
