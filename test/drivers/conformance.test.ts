/** The conformance suite fails where it should; the tests of the drivers show that valid drivers pass it. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import { conformance } from "../../packages/driver/src/conformance/conformance.ts";
import { printCertificate } from "../../packages/driver/src/certificate.ts";
import type { Certificate } from "../../packages/driver/src/certificate.ts";
import { certifyDriver } from "../../packages/driver/src/certify.ts";
import type { BootOptions, Driver, MediaInterface, Step } from "../../src/drivers/driver.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnySettings } from "../support/driver.ts";

/** Runs one check on a driver with these settings, for its nodes and for its discovery. */
async function prove(title: string, settings: z.ZodType, discovery?: z.ZodType): Promise<void> {
  const factory = () =>
    ({
      ...aDriver("tried"),
      settings,
      ...(discovery && { discover: { settings: discovery } }),
    }) as unknown as Driver<unknown>;
  const check = conformance({ factory, settings: {} }).find((one) => one.title === title);
  if (!check) throw new Error(`There is no check "${title}".`);
  await check.run();
}

describe("conformance of settings that clients can type", () => {
  const title = "declares settings that can become GraphQL types";
  const secret = z.string().meta({ writeOnly: true });

  test("conformance accepts settings that are an object with only named fields", async () => {
    await expect(
      prove(
        title,
        z.strictObject({
          port: z.int(),
          users: z.array(z.strictObject({ name: z.string() })),
          tags: z.record(z.string(), z.string()),
          password: secret,
        }),
      ),
    ).resolves.toBeUndefined();
  });

  test.each<[string, z.ZodType, string]>([
    ["an object that takes any field", z.looseObject({}), "the JSON Schema accepts fields that it does not name"],
    [
      "a choice of objects",
      z.union([z.strictObject({ a: z.string() }), z.strictObject({ b: z.string() })]),
      "its settings are not an object",
    ],
    ["a name that clients cannot write", z.strictObject({ "boot-mode": z.string() }), 'a field "boot-mode"'],
    [
      "a secret below the top",
      z.strictObject({ login: z.strictObject({ password: secret }) }),
      "the secret login.password inside another setting",
    ],
    [
      "a secret in a record",
      z.strictObject({ tokens: z.record(z.string(), secret) }),
      "mark a secret by `additionalProperties` of tokens",
    ],
    [
      "a secret that may be something else",
      z.strictObject({ password: z.union([secret, z.number()]) }),
      "mark a secret by `anyOf` of password",
    ],
    [
      "an object with conditions between fields",
      z.strictObject({ password: secret.optional() }).meta({ oneOf: [{ required: ["password"] }, {}] }),
      "declares conditions between fields (`oneOf`, `if`)",
    ],
    ["a type that JSON lacks", z.strictObject({ since: z.date() }), "cannot be expressed as JSON Schema"],
  ])("conformance rejects settings with %s", async (_what, settings, says) => {
    await expect(prove(title, settings)).rejects.toThrow(says);
  });
});

describe("conformance of secrets", () => {
  const secret = z.string().meta({ writeOnly: true, description: "Secret." });

  test.each<[string, z.ZodType]>([
    ["a list", z.strictObject({ keys: z.array(secret).meta({ description: "Keys." }) })],
    ["a variant", z.strictObject({ password: z.union([secret, z.number()]).meta({ description: "Password." }) })],
  ])("conformance rejects a secret that is marked in %s, also for discovery", async (_what, settings) => {
    await expect(prove("marks its secrets, all of them strings", settings)).rejects.toThrow("mark a secret by");
    await expect(
      prove("describes the settings of its discovery, and marks their secrets", z.strictObject({}), settings),
    ).rejects.toThrow("mark a secret by");
  });

  test("conformance rejects a secret that no setting is bound to, which an update would send anywhere", async () => {
    const title = "marks the settings that decide where its secrets are sent";
    const address = z.string().meta({ description: "Address." });
    await expect(prove(title, z.strictObject({ address, password: secret }))).rejects.toThrow("none is marked");
    const bound = address.meta({ description: "Address.", bindsSecret: true });
    await expect(prove(title, z.strictObject({ address: bound, password: secret }))).resolves.toBeUndefined();
    await expect(prove(title, z.strictObject({ address }))).resolves.toBeUndefined();
  });

  test("conformance finds a secret behind a reference, and rejects a message that repeats it", async () => {
    const shared = secret.meta({ id: "shared_secret", writeOnly: true });
    const repeating = z.strictObject({
      password: shared.max(20, { error: ({ input }) => `${JSON.stringify(input)} is too long` }).optional(),
    });
    await expect(prove("does not repeat a secret when it refuses settings", repeating)).rejects.toThrow(
      'repeats the secret "password"',
    );
  });
});

describe("conformance of steps on a machine", () => {
  /** Runs the check of inspection on a driver with one step. */
  async function inspecting(
    run: Step<AnySettings>["run"],
    verify: Step<AnySettings>["verify"] & {},
    more: Pick<Step<AnySettings>, "abort"> = {},
  ): Promise<void> {
    const step = aStep("look", "inspect", run, { verify, ...more });
    const factory = () =>
      aDriver("tried", { inspect: { ...stepsOf(step), withoutReboot: true } }) as unknown as Driver<unknown>;
    const check = conformance({ factory, settings: { address: "192.0.2.70" }, live: true, liveSeconds: 5 }).find(
      ({ title }) => title.startsWith("inspects successfully"),
    );
    await check?.run();
    expect(check).toBeDefined();
  }
  const done = async () => ({ kind: "done", output: {} }) as const;

  test("conformance runs the verify part of a step with its own memo, after each of two runs", async () => {
    const memos: unknown[] = [];
    await inspecting(
      async ({ memo }) => (memo === null ? { kind: "wait", seconds: 0, memo: "of run" } : { kind: "done" }),
      async ({ memo }) => {
        memos.push(memo);
        return memo === null ? { kind: "wait", seconds: 0, memo: "of verify" } : { kind: "done" };
      },
    );
    expect(memos).toEqual([null, "of verify", null, "of verify", null, "of verify", null, "of verify"]);
  });

  test("conformance fails if the abort of a step fails with nothing to undo", async () => {
    const abort = async () => Promise.reject(new Error("no such job"));
    await expect(inspecting(done, done, { abort })).rejects.toThrow(
      "`abort` of step look, called the first time with nothing to undo, fails: Error: no such job",
    );
  });

  test("conformance fails if the verify part of a step fails, also on the second run", async () => {
    let looked = 0;
    const verify = async () =>
      looked++ === 0
        ? ({ kind: "done" } as const)
        : ({ kind: "failed", reason: "gone again", retryable: false } as const);
    await expect(inspecting(done, verify)).rejects.toThrow("`verify`, entered the second time: gone again");
    await expect(inspecting(done, (async () => ({ kind: "perhaps" })) as never)).rejects.toThrow("not a step result");
  });

  test("conformance rejects a step whose call depends on the name of the machine", async () => {
    await expect(inspecting((call) => call.timed("look at 192.0.2.70", done), done)).rejects.toThrow(
      "contains a setting",
    );
    await expect(inspecting((call) => call.timed("look", done), done)).resolves.toBeUndefined();
  });
});

describe("conformance of erasures", () => {
  const accounted = { kind: "done", output: { disks: [{ name: "sda", erased: true }] } } as const;
  const proved = async (steps: readonly Step<AnySettings>[], of: string) => {
    const factory = () => aDriver("tried", { clean: stepsOf(...steps) }) as unknown as Driver<unknown>;
    const chosen = steps.map(({ name }) => ({ interface: "clean", step: name }) as const);
    const checks = conformance({ factory, settings: {}, live: true, liveSeconds: 5, steps: chosen });
    const check = checks.find(({ title }) => title.includes(of));
    await check?.run();
    expect(check).toBeDefined();
  };
  const declared = "accounts for the disks that it erases";
  const wipe = aStep("wipe", "clean", async () => accounted);

  test.each<[string, readonly Step<AnySettings>[]]>([
    ["that erases", [{ ...wipe, erases: true }]],
    ["that touches disks beside one that erases", [wipe, { ...wipe, name: "erase", erases: true }]],
    ["that touches no disks", [{ ...wipe, touches: ["FIRMWARE"] }]],
    ["that runs on request", [{ ...wipe, priority: 0 }]],
  ])("conformance accepts a clean step %s", async (_what, steps) => {
    await expect(proved(steps, declared)).resolves.toBeUndefined();
  });

  test("conformance rejects automatic cleaning of disks of which no step declares that it erases", async () => {
    await expect(proved([wipe], declared)).rejects.toThrow("Step wipe cleans automatically and touches the disks");
    const later = { ...wipe, name: "later", priority: 0, erases: true } as const;
    await expect(proved([wipe, later], declared)).rejects.toThrow("no automatic clean step declares `erases`");
  });

  test.each<[string, Step<AnySettings>["run"]]>([
    ["no account", async () => ({ kind: "done" })],
    ["a disk without a name", async () => ({ kind: "done", output: { disks: [{ serial: "S1", erased: true }] } })],
    [
      "a disk left out without a reason",
      async () => ({ kind: "done", output: { disks: [{ id: "1", erased: false }] } }),
    ],
    ["a disk without a verdict", async () => ({ kind: "done", output: { disks: [{ id: "1" }] } })],
  ])("conformance rejects an erasure with %s", async (_what, run) => {
    const of = "runs the given steps";
    await expect(proved([{ ...wipe, erases: true }], of)).resolves.toBeUndefined();
    await expect(proved([{ ...wipe, erases: true, run }], of)).rejects.toThrow("Step wipe declares `erases`, and");
  });
});

describe("conformance of what a machine does not support", () => {
  const lacks = async () => {
    throw Object.assign(new Error("The machine has none."), {
      name: "DriverError",
      kind: "UNSUPPORTED",
      retryable: false,
    });
  };
  const certified = async (of: Partial<Driver<never>>, driveless?: Readonly<Record<string, string>>) => {
    const factory = () => ({ ...aDriver("tried"), ...of }) as unknown as Driver<unknown>;
    return certifyDriver({ factory, settings: {}, live: true, ...(driveless && { driveless }) });
  };
  const checkOf = ({ checks }: Certificate, title: string) => checks.find((check) => check.title.includes(title));

  test("conformance prints UNSUPPORTED, with the reason, in place of a pass [R-806]", async () => {
    const { power } = aDriver("tried");
    const certificate = await certified({ power: { ...power, setBootDevice: lacks } });
    const text = printCertificate(certificate);
    expect(text).toMatch(
      /UNSUPPORTED {2}sets every boot device[^\n]*\n {6}Boot device PXE[^\n]*: The machine has none\./,
    );
    expect(text).toMatch(/UNSUPPORTED {2}inserts and ejects[^\n]*\n {6}The driver has no virtual media\./);
    expect(text).toMatch(/UNSUPPORTED {2}takes no machine without drives[^\n]*\n {6}The driver erases no disks\./);
    const { passed, unsupported, failed, checks } = certificate;
    expect(unsupported).toBeGreaterThan(3);
    expect(passed + unsupported + failed).toBe(checks.length);
    expect(text).toContain(`${passed} passed, ${unsupported} unsupported, ${failed} failed`);
  });

  test("conformance sets boot devices with their modes, and reads them back [R-806]", async () => {
    const { power } = aDriver("tried");
    const asked: unknown[] = [];
    const setBootDevice = async (_call: unknown, device: string, { mode }: BootOptions) =>
      void asked.push([device, mode]);
    const readBootDevice = async () => ({ device: "PXE", persistent: false, mode: "UEFI" }) as const;
    expect(checkOf(await certified({ power: { ...power, setBootDevice } }), "boot device")?.problem).toBeNull();
    expect(asked).toEqual(
      expect.arrayContaining([
        ["HTTP", "UEFI"],
        ["PXE", "BIOS"],
      ]),
    );
    const wrong = await certified({ power: { ...power, setBootDevice, readBootDevice } });
    expect(checkOf(wrong, "boot device")?.problem).toMatch(
      /Boot device PXE \(persistent false, mode BIOS\) is set, but/,
    );
  });

  test.each([
    ["an empty account", { kind: "done", output: { disks: [] } }, /succeeds on a machine without drives/],
    ["no account", { kind: "done" }, /succeeds on a machine without drives/],
    ["a failure", { kind: "failed", reason: "There are no drives.", retryable: false }, null],
  ] as const)(
    "conformance judges an erasure of a machine without drives that ends with %s [R-806]",
    async (_what, result, problem) => {
      const wipe = aStep("wipe", "clean", async () => result, { erases: true });
      const check = checkOf(await certified({ clean: stepsOf(wipe) }, { bare: "yes" }), "without drives");
      expect([check?.problem ?? null, check?.unsupported]).toEqual([problem && expect.stringMatching(problem), []]);
    },
  );
});

describe("conformance of virtual media", () => {
  const media = (changes: Partial<MediaInterface<unknown>>) => ({
    insert: async () => {},
    eject: async () => {},
    ...changes,
  });
  const proved = async (made: MediaInterface<unknown> | undefined) => {
    const factory = ({ log }: { log(message: string): void }) => {
      logLine = log;
      return { ...aDriver("tried"), ...(made && { media: made }) } as unknown as Driver<unknown>;
    };
    const check = conformance({ factory, settings: {}, live: true }).find(({ title }) =>
      title.includes("virtual media"),
    );
    if (!check) throw new Error("There is no check of virtual media.");
    await check.run();
  };
  let logLine: (message: string) => void = () => {};
  const fails = (kind: string) => async () => {
    throw Object.assign(new Error(`The BMC reports ${kind}.`), { name: "DriverError", kind, retryable: false });
  };

  test.each<[string, MediaInterface<unknown> | undefined]>([
    ["a driver without virtual media", undefined],
    ["a machine that takes media", media({})],
    ["a machine that lacks a drive", media({ insert: fails("UNSUPPORTED"), eject: fails("UNSUPPORTED") })],
    ["a machine that refuses an image that it cannot fetch", media({ insert: fails("REFUSED") })],
  ])("conformance of virtual media accepts %s", async (_title, made) => {
    await expect(proved(made)).resolves.toBeUndefined();
  });

  test.each<[string, MediaInterface<unknown>, RegExp]>([
    ["an eject that is refused if nothing is inserted", media({ eject: fails("REFUSED") }), /`media.eject` is refused/],
    ["an error of another kind", media({ insert: fails("OTHER") }), /kind UNSUPPORTED or REFUSED/],
    ["a URL in the log", media({ insert: async (_call, url) => logLine(url) }), /repeats the URL/],
  ])("conformance of virtual media rejects %s", async (_title, made, problem) => {
    await expect(proved(made)).rejects.toThrow(problem);
  });
});
