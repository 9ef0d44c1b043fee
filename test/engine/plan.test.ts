/**
 * Plans: which steps run in which order, and what is refused: the order of a phase, the site's step policy, lists of
 * steps.
 */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { createRegistry } from "../../src/drivers/registry.ts";
import type { Composition } from "../../src/drivers/registry.ts";
import { OFF_REASONS, catalogueOf, runningOrder } from "../../src/engine/plans/catalogue.ts";
import { keepSteps, keysOf, planSteps } from "../../src/engine/plans/plan.ts";
import type { PlanRequest } from "../../src/engine/plans/plan.ts";
import { RESERVED_STEPS, reservedArgsSchema } from "../../src/engine/plans/reserved-steps.ts";
import { route } from "../../src/lifecycle/verbs.ts";
import type { Route } from "../../src/lifecycle/verbs.ts";
import type { Plan, SitePolicy, StepChoice } from "../../src/store/records.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnySettings } from "../support/driver.ts";
import type { Step } from "../../src/drivers/driver.ts";

const succeed = async () => ({ kind: "done" }) as const;
const cleanStep = (name: string, priority: number, more: Partial<Step<AnySettings>> = {}) =>
  aStep(name, "clean", succeed, { ...more, priority });

/** A driver with these clean steps, one deploy step and one undeploy step. */
function composed(...clean: Step<AnySettings>[]): Composition {
  const driver = aDriver("maker", {
    clean: stepsOf(...clean),
    deploy: stepsOf(aStep("install", "deploy", succeed), aStep("remove", "undeploy", succeed)),
  });
  const power = { ...driver.power, setBootDevice: async () => {} };
  const found = createRegistry([{ ...driver, power }]).compose({ driver: "maker", borrowed: {} });
  if ("problem" in found) throw new Error(found.problem);
  return found.composition;
}

const CLEAN = route("CLEAN", "MANAGEABLE") as Route;

function request(composition: Composition, more: Partial<PlanRequest> = {}): PlanRequest {
  return { nodeName: "n1", route: CLEAN, composition, policy: {}, automaticCleaning: true, ...more };
}

async function planned(of: PlanRequest): Promise<Plan> {
  const verdict = await planSteps(of);
  if ("refusals" in verdict) throw new Error(verdict.refusals.map(({ message }) => message).join(" "));
  return verdict.plan;
}

async function refused(of: PlanRequest) {
  const verdict = await planSteps(of);
  if ("plan" in verdict) throw new Error("It was planned.");
  return verdict.refusals;
}

const names = (plan: Plan) => plan.steps.map(({ name }) => name);
const choice = (name: string, args: unknown = {}, from: StepChoice["interface"] = "clean"): StepChoice => ({
  interface: from,
  name,
  args: args as StepChoice["args"],
});
const chosen = (composition: Composition, ...steps: StepChoice[]) =>
  request(composition, { chosen: { phase: "clean", steps, path: ["input", "steps"] } });

describe("order of a phase", () => {
  test("order of a phase is by priority, highest first [R-062]", async () => {
    expect(
      names(await planned(request(composed(cleanStep("low", 1), cleanStep("high", 30), cleanStep("middle", 7))))),
    ).toEqual(["high", "middle", "low"]);
  });

  test("order of steps with equal priority is their order of declaration [R-062]", async () => {
    const tied = ["delta", "alpha", "charlie", "bravo"];
    expect(
      names(await planned(request(composed(...tied.map((name) => cleanStep(name, 5)), cleanStep("first", 6))))),
    ).toEqual(["first", ...tied]);
  });

  test("order of groups at equal priority is vendor, management, firmware, bios, raid, storage, then clean steps without a group [R-378]", async () => {
    const groups = ["storage", "raid", undefined, "bios", "vendor", "firmware", "management"] as const;
    const steps = groups.map((group) => cleanStep(group ?? "none", 5, group && { group }));
    expect(names(await planned(request(composed(...steps, cleanStep("first", 6)))))).toEqual([
      "first",
      "vendor",
      "management",
      "firmware",
      "bios",
      "raid",
      "storage",
      "none",
    ]);
  });

  test("order of interfaces at equal priority is vendor, power, management, firmware, deploy, bios, raid, inspect, clean [R-062]", () => {
    const order = ["vendor", "power", "management", "firmware", "deploy", "bios", "raid", "inspect", "clean"];
    const shuffled = ["raid", "clean", "power", "inspect", "vendor", "bios", "firmware", "deploy", "management"];
    expect(
      shuffled
        .map((name) => ({ interface: name, priority: 5 }))
        .toSorted(runningOrder)
        .map((step) => step.interface),
    ).toEqual(order);
  });

  test("order of a phase puts priority before the interface", () => {
    expect(
      [
        { interface: "vendor", priority: 1 },
        { interface: "clean", priority: 2 },
      ]
        .toSorted(runningOrder)
        .map((step) => step.interface),
    ).toEqual(["clean", "vendor"]);
  });

  test("order of steps of one interface is kept when interfaces are mixed", () => {
    const mixed = ["clean one", "raid one", "clean two", "raid two"].map((label) => ({
      label,
      interface: label.split(" ")[0] ?? "",
      priority: 5,
    }));
    expect(mixed.toSorted(runningOrder).map(({ label }) => label)).toEqual([
      "raid one",
      "raid two",
      "clean one",
      "clean two",
    ]);
  });
});

describe("step policy of the site", () => {
  const steps = [cleanStep("wipe", 20), cleanStep("erase", 10), cleanStep("burn_in", 0)];
  const catalogue = (policy: SitePolicy, automaticCleaning = true) =>
    catalogueOf({ composition: composed(...steps), policy, automaticCleaning }, "clean").map(
      ({ step: { name }, priority, off }) => [name, priority, off],
    );

  test("step policy that is empty leaves the declared order, with disabled steps last", () => {
    expect(catalogue({})).toEqual([
      ["wipe", 20, null],
      ["erase", 10, null],
      ["burn_in", 0, "PRIORITY"],
    ]);
  });

  test("step policy on a priority changes the order, and enables and disables steps", () => {
    const policy = {
      steps: [
        { step: "clean.erase", priority: 21 },
        { step: "clean.wipe", priority: 0 },
        { step: "clean.burn_in", priority: 1 },
      ],
    };
    expect(catalogue(policy)).toEqual([
      ["erase", 21, null],
      ["burn_in", 1, null],
      ["wipe", 0, "SITE_PRIORITY"],
    ]);
  });

  test("step policy may make priorities equal; then the declaration decides", () => {
    expect(
      catalogue({
        steps: [
          { step: "clean.burn_in", priority: 10 },
          { step: "clean.wipe", priority: 10 },
        ],
      }).map(([name]) => name),
    ).toEqual(["wipe", "erase", "burn_in"]);
  });

  test("step policy that forbids a step takes precedence over its priority [R-063]", () => {
    expect(catalogue({ steps: [{ step: "clean.wipe", priority: 90, forbidden: true }] })).toEqual([
      ["erase", 10, null],
      ["wipe", 90, "FORBIDDEN"],
      ["burn_in", 0, "PRIORITY"],
    ]);
  });

  test("step policy on one driver overrides the policy on all drivers, field by field", () => {
    const onAll = [
      { step: "clean.wipe", forbidden: true },
      { step: "clean.erase", priority: 30 },
      { step: "clean.burn_in", priority: 2 },
    ];
    const onOne = [
      { step: "clean.wipe", driver: "maker", forbidden: false },
      { step: "clean.erase", driver: "maker", priority: 3 },
      { step: "clean.burn_in", driver: "other", priority: 0 },
    ];
    for (const given of [
      [...onAll, ...onOne],
      [...onOne, ...onAll],
    ])
      expect(catalogue({ steps: given })).toEqual([
        ["wipe", 20, null],
        ["erase", 3, null],
        ["burn_in", 2, null],
      ]);
    expect(
      catalogue({
        steps: [
          { step: "clean.wipe", priority: 5 },
          { step: "clean.wipe", driver: "maker", forbidden: true },
        ],
      })[1],
    ).toEqual(["wipe", 5, "FORBIDDEN"]);
  });

  test("step policy on another driver or interface has no effect", () => {
    expect(
      catalogue({
        steps: [
          { step: "clean.wipe", driver: "other", priority: 0 },
          { step: "deploy.wipe", priority: 0 },
        ],
      }),
    ).toEqual(catalogue({}));
  });

  test("step policy that switches automatic cleaning off disables clean steps only", () => {
    expect(catalogue({}, false)).toEqual([
      ["wipe", 20, "CLEANING_OFF"],
      ["erase", 10, "CLEANING_OFF"],
      ["burn_in", 0, "PRIORITY"],
    ]);
    expect(
      catalogueOf({ composition: composed(...steps), policy: {}, automaticCleaning: false }, "deploy").map(
        ({ off }) => off,
      ),
    ).toEqual([null]);
  });

  test("step policy that enables a step with required arguments is refused with what to do", async () => {
    const composition = composed(cleanStep("flash", 0, { args: z.strictObject({ version: z.string() }) }));
    const refusals = await refused(request(composition, { policy: { steps: [{ step: "clean.flash", priority: 7 }] } }));
    expect(refusals).toEqual([
      {
        code: "INVALID_INPUT",
        message: expect.stringMatching(
          /^Node n1 cannot run clean\.flash of driver maker automatically, although its priority is 7: it needs arguments \(version: .+\)\. Set its priority to 0 with updateSite/,
        ),
      },
    ]);
  });

  test("step policy has a sentence for each reason why a step is disabled", () => {
    for (const sentence of Object.values(OFF_REASONS)) expect(sentence).toMatch(/^[A-Z].+\.$/);
  });
});

describe("list of steps in a plan", () => {
  const composition = composed(
    cleanStep("wipe", 20),
    cleanStep("flash", 0, { args: z.strictObject({ version: z.string().regex(/^\d+$/), slot: z.int().default(1) }) }),
  );

  test("list of steps keeps its order, repeated steps and steps of priority 0, and fills in default arguments [R-061]", async () => {
    const plan = await planned(
      chosen(
        composition,
        choice("flash", { version: "7" }),
        choice("wipe"),
        choice("flash", { version: "8", slot: 2 }),
      ),
    );
    expect(plan.steps.map(({ name, args, leg, phase, driver }) => ({ name, args, leg, phase, driver }))).toEqual([
      { name: "flash", args: { version: "7", slot: 1 }, leg: 0, phase: "clean", driver: "maker" },
      { name: "wipe", args: {}, leg: 0, phase: "clean", driver: "maker" },
      { name: "flash", args: { version: "8", slot: 2 }, leg: 0, phase: "clean", driver: "maker" },
    ]);
  });

  test("list of steps replaces the automatic list of its own phase only", async () => {
    const both = request(composition, {
      route: route("UNDEPLOY", "ACTIVE") as Route,
      chosen: { phase: "clean", steps: [choice("power_off", {}, "power")] },
    });
    expect(names(await planned(both))).toEqual(["remove", "power_off"]);
  });

  test("list of steps is refused with every unknown step and every invalid argument, each with its path [R-064]", async () => {
    const refusals = await refused(
      chosen(
        composition,
        choice("polish"),
        choice("flash", { version: "seven", slot: "a" }),
        choice("wipe", { twice: true, thrice: true }),
        choice("wipe"),
        choice("install", {}, "deploy"),
        choice("soft_power_off", { timeoutSeconds: 0, hard: true }, "power"),
        choice("power_cycle", {}, "power"),
        choice("wait", {}, "engine"),
        choice("nap", {}, "engine"),
        choice("hold", "because", "engine"),
        choice("wipe", [1]),
        choice("wipe", null),
      ),
    );
    expect(refusals.map(({ path }) => path?.join("."))).toEqual([
      "input.steps.0.name",
      "input.steps.1.args.version",
      "input.steps.1.args.slot",
      "input.steps.2.args.twice",
      "input.steps.2.args.thrice",
      "input.steps.4.name",
      "input.steps.5.args.hard",
      "input.steps.5.args.timeoutSeconds",
      "input.steps.6.name",
      "input.steps.7.args.seconds",
      "input.steps.8.name",
      "input.steps.9.args",
      "input.steps.10.args",
      "input.steps.11.args",
    ]);
    for (const { code, message } of refusals) {
      expect(code).toBe("INVALID_INPUT");
      expect(message).toMatch(/^Step [a-z]+\.[a-z_]+ on node n1: .+\.$/);
    }
    expect(refusals[0]?.message).toContain("they offer clean.wipe, clean.flash.");
    expect(refusals[1]?.message).toMatch(/^Step clean\.flash on node n1: version: .+\.$/);
    expect(refusals[3]?.message).toBe("Step clean.wipe on node n1: twice: this step takes no arguments.");
    expect(refusals[8]?.message).toContain(
      "(there are power_on, power_off, soft_power_off, reboot, soft_reboot, boot_device).",
    );
    expect(refusals[10]?.message).toContain("(there are wait, hold).");
  });

  test("list of steps may contain disabled steps, and must not contain forbidden ones", async () => {
    const policy = { steps: [{ step: "clean.wipe", forbidden: true }] };
    expect(await refused({ ...chosen(composition, choice("wipe")), policy })).toEqual([
      {
        code: "INVALID_INPUT",
        path: ["input", "steps", "0", "name"],
        message: expect.stringContaining(
          "the site's policy forbids it. Leave it out, or change the policy with updateSite.",
        ),
      },
    ]);
    expect(
      names(
        await planned({
          ...chosen(composition, choice("wipe")),
          policy: { steps: [{ step: "clean.wipe", priority: 0 }] },
          automaticCleaning: false,
        }),
      ),
    ).toEqual(["wipe"]);
  });

  // This was an internal error, and a run whose clean-up contained such a step could not end.
  test("list of steps is refused if a driver throws while it checks arguments", async () => {
    const args = z.strictObject({ version: z.string() }).transform((): never => {
      throw new Error("no such version");
    });
    const refusals = await refused(
      chosen(composed(cleanStep("flash", 0, { args })), choice("flash", { version: "2.1" })),
    );
    expect(refusals).toEqual([
      {
        code: "INVALID_INPUT",
        path: ["input", "steps", "0", "args"],
        message: expect.stringContaining("its driver fails to validate this value"),
      },
    ]);
  });

  test("list of steps that comes from no request is refused without a path", async () => {
    expect(
      (
        await refused(
          request(composition, { chosen: { phase: "clean", steps: [choice("polish"), choice("nap", {}, "engine")] } }),
        )
      ).map(({ path }) => path),
    ).toEqual([undefined, undefined]);
  });
});

describe("reserved steps", () => {
  const good: Readonly<Record<string, object>> = {
    "engine.wait": { seconds: 90 },
    "power.soft_power_off": { timeoutSeconds: 30 },
    "power.boot_device": { device: "NETWORK", persistent: true },
    "engine.hold": { reason: "look at the disks" },
  };

  test.each(RESERVED_STEPS.map((step) => ({ ...step, label: `${step.interface}.${step.name}` })))(
    "reserved step $label works in lists of clean and of deploy steps, touches nothing and is interruptible [R-069]",
    async ({ interface: from, name, label }) => {
      for (const [phase, of] of [
        ["clean", CLEAN],
        ["deploy", route("DEPLOY", "AVAILABLE") as Route],
      ] as const) {
        const plan = await planned(
          request(composed(), { route: of, chosen: { phase, steps: [choice(name, good[label] ?? {}, from)] } }),
        );
        expect(plan.steps).toMatchObject([
          {
            interface: from,
            name,
            phase,
            args: good[label] ?? {},
            touches: [],
            interruptible: "ALWAYS",
            supportsAbort: true,
            reaches: null,
            driver: from === "power" ? "maker" : "ostler",
          },
        ]);
      }
    },
  );

  test("reserved steps have a timeout beyond their own duration", async () => {
    const plan = await planned(
      chosen(
        composed(),
        choice("wait", { seconds: 90 }, "engine"),
        choice("soft_power_off", { timeoutSeconds: 30 }, "power"),
        choice("soft_power_off", {}, "power"),
        choice("hold", {}, "engine"),
      ),
    );
    const [wait, soft, usual, hold] = plan.steps.map(({ timeoutSeconds }) => timeoutSeconds);
    expect([wait, soft, usual]).toEqual([150, 90, 660]);
    expect(hold).toBeGreaterThan(50 * 365 * 86_400);
  });

  test("reserved steps accept null for an optional argument only", async () => {
    expect(
      (
        await planned(
          chosen(
            composed(),
            choice("hold", { reason: null }, "engine"),
            choice("soft_power_off", { timeoutSeconds: null }, "power"),
          ),
        )
      ).steps.map(({ args }) => args),
    ).toEqual([{}, { timeoutSeconds: 600 }]);
    expect(await refused(chosen(composed(), choice("wait", { seconds: null }, "engine")))).toHaveLength(1);
  });

  test.each([
    ["power_on", "power", { force: true }, "args.force"],
    ["reboot", "power", { timeoutSeconds: 5 }, "args.timeoutSeconds"],
    ["soft_power_off", "power", { timeoutSeconds: 86_401 }, "args.timeoutSeconds"],
    ["soft_power_off", "power", { timeoutSeconds: "60" }, "args.timeoutSeconds"],
    ["wait", "engine", { seconds: -1 }, "args.seconds"],
    ["wait", "engine", { seconds: 30 * 86_400 + 1 }, "args.seconds"],
    ["wait", "engine", { minutes: 1, seconds: 1 }, "args.minutes"],
    ["hold", "engine", { reason: "x".repeat(1_001) }, "args.reason"],
    ["hold", "engine", { reason: 7 }, "args.reason"],
  ] as const)("reserved step %s of %s refuses %j", async (name, from, args, place) => {
    expect((await refused(chosen(composed(), choice(name, args, from)))).map(({ path }) => path?.join("."))).toEqual([
      `input.steps.0.${place}`,
    ]);
  });

  test("reserved steps describe their arguments in their schema", () => {
    const schemas = Object.fromEntries(RESERVED_STEPS.map((step) => [step.name, reservedArgsSchema(step)]));
    expect(schemas["wait"]).toMatchObject({
      type: "object",
      properties: { seconds: { type: "number", minimum: 0 } },
      required: ["seconds"],
      additionalProperties: false,
    });
    expect(schemas["soft_power_off"]).toMatchObject({
      properties: { timeoutSeconds: { type: "number", minimum: 1, maximum: 86_400, default: 600 } },
      required: [],
    });
    expect(schemas["power_on"]).toMatchObject({ properties: {}, additionalProperties: false });
    // Zod reads the same schema independently: it must accept what the plan accepts.
    for (const [name, args] of [
      ["wait", { seconds: 5 }],
      ["hold", { reason: "x" }],
      ["soft_power_off", { timeoutSeconds: 1 }],
      ["reboot", {}],
    ] as const)
      expect(z.fromJSONSchema(schemas[name] as never).safeParse(args).success).toBe(true);
  });
});

describe("steps that a restart keeps", () => {
  test("steps that a restart keeps are matched by their number among equal names, so one of two reboots is one", async () => {
    const plan = await planned(
      chosen(
        composed(cleanStep("wipe", 20)),
        choice("reboot", {}, "power"),
        choice("wipe"),
        choice("reboot", {}, "power"),
        choice("wipe"),
      ),
    );
    const keys = keysOf(plan);
    expect(new Set(keys).size).toBe(4);
    expect(keepSteps(plan, new Set(keys.slice(0, 2))).steps.map(({ kept }) => kept)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});
