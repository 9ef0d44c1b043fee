/** Probes of addresses on request: what is reported, what is bounded, and that nothing is registered. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import type { Ability, DriverErrorKind } from "../../src/drivers/driver.ts";
import type { ProbeRequest } from "../../src/engine/discovery/node-probes.ts";
import { engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const SECRET = "Plugh-91-xyzzy";

/** Answers of the driver `lab`, by address. */
interface Machine {
  readonly fails?: DriverErrorKind;
  readonly abilities?: unknown;
  readonly silent?: "probe" | "abilities";
}

function aLab(machines: Readonly<Record<string, Machine>>) {
  const asked: string[] = [];
  const settings = z.strictObject({
    address: z.string().meta({ description: "Address." }),
    password: z.string().min(3).meta({ writeOnly: true, description: "Password." }),
  });
  const untilOver = (signal: AbortSignal) =>
    new Promise<never>((_, fail) =>
      signal.addEventListener("abort", () => fail(signal.reason as Error), { once: true }),
    );
  const driver = Object.assign(
    aDriver("lab", { clean: stepsOf(aStep("wipe", "clean", async () => ({ kind: "done" }))) }),
    {
      settings,
      discover: {
        settings: settings.omit({ address: true }),
        async probe({
          address,
          settings: login,
          signal,
        }: {
          address: string;
          settings: { password: string };
          signal: AbortSignal;
        }) {
          asked.push(`${address} ${login.password}`);
          const machine = machines[address];
          if (machine?.silent === "probe") return untilOver(signal);
          const kind = machine ? (login.password === SECRET ? machine.fails : "AUTHENTICATION") : "UNREACHABLE";
          if (kind)
            throw Object.assign(new Error(`${kind} with ${login.password}`), {
              name: "DriverError",
              kind,
              retryable: false,
            });
          return { settings: { address, ...login }, name: `host ${login.password}` };
        },
      },
      controllerOf: ({ address }: { address: string }) => `bmc ${address}`,
      async abilities({ settings: { address }, signal }: { settings: { address: string }; signal: AbortSignal }) {
        if (machines[address]?.silent === "abilities") return untilOver(signal);
        return (machines[address]?.abilities ?? []) as Ability[];
      },
    },
  );
  return { driver, asked };
}

const lab = (password = SECRET) => ({ driver: "lab", settings: { password } });

async function probed(machines: Readonly<Record<string, Machine>>, request: ProbeRequest, probeMs?: number) {
  const { driver, asked } = aLab(machines);
  const ostler = await engineUnderTest({ drivers: [driver], ...(probeMs !== undefined && { probeMs }) });
  return { ostler, asked, ...(await ostler.engine.probeNodes(request)) };
}

describe("probeNodes", () => {
  test("probeNodes reports the machine with its settings, without secrets, and registers nothing [R-518]", async () => {
    const abilities = [
      { name: "clean.wipe", works: false, reason: `no drive for ${SECRET}` },
      { name: "power.SOFT_OFF", works: true },
    ];
    const { ostler, answers, refusals } = await probed(
      { "10.0.0.1": { abilities } },
      { addresses: ["10.0.0.1", "10.0.0.2"], drivers: [lab(), lab("wrong-one")] },
    );
    await using _ = ostler;
    expect(refusals).toEqual([]);
    expect(answers.map(({ address, kind }) => [address, kind])).toEqual([
      ["10.0.0.1", null],
      ["10.0.0.1", "AUTHENTICATION"],
      ["10.0.0.2", "UNREACHABLE"],
      ["10.0.0.2", "UNREACHABLE"],
    ]);
    expect(answers[0]?.found).toEqual({
      name: expect.stringMatching(/^host/),
      settings: { address: "10.0.0.1" },
      controller: "bmc 10.0.0.1",
      nodeId: null,
      abilities: [
        { name: "power", works: true },
        { name: "clean.wipe", works: false, reason: expect.stringMatching(/^no drive for/) },
        { name: "power.SOFT_OFF", works: true },
      ],
      abilitiesRefusal: null,
    });
    const text = JSON.stringify(answers.map(({ driver: _driver, ...rest }) => rest));
    expect([text.includes(SECRET), text.includes("wrong-one")]).toEqual([false, false]);
    expect(await ostler.nodeStates()).toEqual({});
    expect((await ostler.dump()).join("\n")).not.toContain(SECRET);
  });

  test("probeNodes names the node that is registered for the machine", async () => {
    const { driver } = aLab({ "10.0.0.1": {} });
    await using ostler = await engineUnderTest({ drivers: [driver] });
    const node = await ostler.aNode().with("lab", { address: "10.0.0.1", password: SECRET }).made();
    const { answers } = await ostler.engine.probeNodes({ addresses: ["10.0.0.1"], drivers: [lab()] });
    expect(answers.map(({ found }) => found?.nodeId)).toEqual([node.id]);
  });

  test("probeNodes ends in time although machines give no answer, and the others are reported [R-519]", async () => {
    const { ostler, answers } = await probed(
      { "10.0.0.1": { silent: "probe" }, "10.0.0.2": { silent: "abilities" }, "10.0.0.3": {} },
      { addresses: ["10.0.0.1", "10.0.0.2", "10.0.0.3"], drivers: [lab()] },
      200,
    );
    await using _ = ostler;
    expect(answers.map(({ refusal, found }) => [refusal?.code, found?.abilitiesRefusal?.code])).toEqual([
      ["TIMEOUT", undefined],
      [undefined, "TIMEOUT"],
      [undefined, undefined],
    ]);
  });

  test.each([
    ["no list", "everything"],
    ["an ability without a name", [{ works: true }]],
    ["a name that is not one", [{ name: "<b>", works: true }]],
    ["an ability that neither works nor not", [{ name: "media", works: "perhaps" }]],
  ])(
    "probeNodes of a driver that reports %s has the machine, and an error for its abilities",
    async (_title, abilities) => {
      const { ostler, answers } = await probed(
        { "10.0.0.1": { abilities } },
        { addresses: ["10.0.0.1"], drivers: [lab()] },
      );
      await using _ = ostler;
      expect(answers[0]?.found).toMatchObject({ abilities: null, abilitiesRefusal: { code: "BACKEND_FAILED" } });
    },
  );

  test("probeNodes without drivers tries all that can discover, and names the ones that need settings", async () => {
    const { ostler, answers, asked } = await probed({}, { addresses: ["10.0.0.1"] });
    await using _ = ostler;
    expect(answers.map(({ driver, refusal }) => [driver.name, refusal?.code ?? null])).toEqual([
      ["fake", null],
      ["lab", "INVALID_INPUT"],
    ]);
    expect(asked).toEqual([]);
  });

  test("probeNodes refuses too many addresses, too many drivers and invalid settings, all at once", async () => {
    const { ostler, answers, refusals, asked } = await probed(
      { "10.0.0.1": {} },
      { addresses: ["10.0.0.0/24"], drivers: [lab("x"), { driver: "ghost", settings: {} }] },
    );
    await using _ = ostler;
    expect([answers, asked]).toEqual([[], []]);
    expect(refusals.map(({ path }) => path)).toEqual([
      ["input", "addresses"],
      ["input", "drivers", "0", "lab", "password"],
      ["input", "drivers", "1"],
    ]);
    const many = await ostler.engine.probeNodes({
      addresses: ["10.0.0.1"],
      drivers: Array.from({ length: 9 }, () => lab()),
    });
    expect(many.refusals).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "drivers"] }]);
  });
});
