/** Checks on a machine that can be switched on and off: power, boot devices, signals, steps, a refused login. */
import { isRecord } from "../../../../src/runtime/json-values.ts";
import type { BootDevice, BootOptions, Json, Step } from "../../../../src/drivers/driver.ts";
import { parseDiskAccount } from "../../../../src/drivers/step-result.ts";
import { abortStep, makeCall, performStep, read, switchPower } from "./calls.ts";
import {
  PROMPT_SECONDS,
  describe,
  ensure,
  ensureRefusedLogin,
  isDriverError,
  noteUnsupported,
  within,
} from "./proof.ts";
import { accept, isJson, issuesOf, secretsIn } from "./schemas.ts";
import type { Subject } from "./subject.ts";

export async function provesRead(subject: Subject): Promise<void> {
  const state = await read(subject);
  const expected = subject.driver.power.set ? state !== "UNKNOWN" : state === "UNKNOWN";
  ensure(expected, `The driver reads the power of the machine as ${state}; only one without \`set\` reads UNKNOWN.`);
}

export async function provesPower(subject: Subject): Promise<void> {
  await switchPower(subject, "OFF", "OFF");
  for (const action of ["ON", "ON", "OFF", "OFF"] as const) await switchPower(subject, action, action);
}

export async function provesReboot(subject: Subject): Promise<void> {
  await switchPower(subject, "ON", "ON");
  await switchPower(subject, "REBOOT", "ON");
}

const ONCE = { persistent: false } as const;
const BOOTS: readonly BootOptions[] = [
  ONCE,
  { persistent: true },
  { ...ONCE, mode: "UEFI" },
  { ...ONCE, mode: "BIOS" },
  { ...ONCE, other: true },
];

export async function provesBootDevices(subject: Subject): Promise<void> {
  const { power } = subject.driver;
  if (power.setBootDevice === undefined) return void subject.unsupported.push("The driver sets no boot device.");
  const set = async (device: BootDevice, options: BootOptions) => {
    await power.setBootDevice?.(await makeCall(subject), device, options);
    return power.readBootDevice?.(await makeCall(subject));
  };
  for (const device of ["PXE", "DISK", "CDROM", "BIOS", "HTTP"] as const)
    for (const options of BOOTS) {
      const how = Object.entries(options).map(([name, value]) => `${name} ${String(value)}`);
      const what = `Boot device ${device} (${how.join(", ")})`;
      // Not every machine can start from every device; one that cannot refuses.
      const found = await set(device, options).catch((error: unknown) => {
        noteUnsupported(subject, error, { what, also: "REFUSED" });
        return undefined;
      });
      if (found?.device === null) subject.unsupported.push(`${what}: it is set, and the machine reports none.`);
      if (!found?.device) continue;
      const { mode = found.mode } = options;
      const isRead = found.device === device && (found.mode ?? mode) === mode;
      ensure(isRead, `${what} is set, but the driver reads ${JSON.stringify(found)}.`);
    }
}

/** The reads that a driver can have in addition: each answers with plain JSON, or reports UNSUPPORTED. */
export async function provesReads(subject: Subject): Promise<void> {
  const { driver, options } = subject;
  const call = await makeCall(subject);
  const reads: Readonly<Record<string, (() => Promise<unknown>) | undefined>> = {
    "power.readBootDevice": driver.power.readBootDevice && (() => Promise.resolve(driver.power.readBootDevice?.(call))),
    "power.readActivity": driver.power.readActivity && (() => Promise.resolve(driver.power.readActivity?.(call))),
    "firmware.read": driver.firmware && (() => Promise.resolve(driver.firmware?.read(call))),
    "bios.read": driver.bios && (() => Promise.resolve(driver.bios?.read(call))),
    "console.serialUrl": driver.console && (() => Promise.resolve(driver.console?.serialUrl(call))),
    abilities: driver.abilities && (() => Promise.resolve(driver.abilities?.(call))),
  };
  const secrets = secretsIn(driver.settings, options.settings);
  for (const [name, ask] of Object.entries(reads)) {
    if (!ask) {
      subject.unsupported.push(`The driver has no \`${name}\`.`);
      continue;
    }
    const answer = await ask().catch((error: unknown) => {
      noteUnsupported(subject, error, { what: `\`${name}\`` });
      return null;
    });
    ensure(
      name !== "power.readActivity" || answer === null || typeof answer === "string",
      "The answer of `power.readActivity` is neither a text nor null.",
    );
    ensure(isJson(answer), `The answer of \`${name}\` is not plain JSON.`);
    const text = JSON.stringify(answer);
    const leaked = secrets.find(({ value }) => value.length >= 8 && text.includes(value));
    ensure(leaked === undefined, `The answer of \`${name}\` contains the secret "${leaked?.name}".`);
  }
}

/** An address that no machine can reach (RFC 5737). */
const IMAGE = "http://192.0.2.1/conformance.iso?token=conformance-media-secret";

/** Virtual media: twice each, or an error that says that the machine cannot, without the URL. */
export async function provesMedia(subject: Subject): Promise<void> {
  const { driver, logged } = subject;
  const { media } = driver;
  if (!media) return void subject.unsupported.push("The driver has no virtual media.");
  const logBefore = logged.length;
  const attempts: readonly (readonly [string, () => Promise<void>])[] = [
    ["media.eject", async () => media.eject(await makeCall(subject))],
    ["media.insert", async () => media.insert(await makeCall(subject), IMAGE, { writeProtected: true })],
    ["media.insert, a second time", async () => media.insert(await makeCall(subject), IMAGE, { writeProtected: true })],
    ["media.eject", async () => media.eject(await makeCall(subject))],
    ["media.eject, a second time", async () => media.eject(await makeCall(subject))],
  ];
  const reported: string[] = [];
  for (const [name, attempt] of attempts) {
    const problem = await attempt().then(
      () => null,
      (error: unknown) => error,
    );
    if (problem === null) continue;
    // A BMC may fetch the image at once, and refuse one that it cannot fetch.
    noteUnsupported(subject, problem, { what: `\`${name}\``, also: "REFUSED" });
    ensure(
      !(name.startsWith("media.eject") && isDriverError(problem) && problem.kind === "REFUSED"),
      `\`${name}\` is refused; it has to succeed also if nothing is inserted: ${describe(problem)}`,
    );
    reported.push(describe(problem));
  }
  const text = [...reported, ...logged.slice(logBefore)].join("\n");
  ensure(
    !text.includes("conformance-media-secret"),
    "The driver repeats the URL of an image, which can have a secret.",
  );
}

export async function provesAbortedSignal(subject: Subject): Promise<void> {
  await switchPower(subject, "OFF", "OFF");
  const signal = AbortSignal.abort(new Error("aborted by the conformance suite"));
  const call = await makeCall(subject, { signal });
  const { power } = subject.driver;
  const attempts: readonly (readonly [string, () => Promise<unknown>])[] = [
    ["power.read", async () => power.read(call)],
    ...(power.set ? [["power.set", async () => power.set?.(call, "ON")] as const] : []),
  ];
  for (const [what, attempt] of attempts) {
    const began = Date.now();
    const failed = await within(attempt(), PROMPT_SECONDS, what).then(
      () => false,
      () => true,
    );
    ensure(failed, `\`${what}\` succeeds although its signal had fired before.`);
    ensure(
      Date.now() - began < 1000,
      `\`${what}\` takes ${Date.now() - began} ms to end although its signal had fired before.`,
    );
  }
  if (!power.set) return;
  ensure((await read(subject)) === "OFF", "The driver switched the machine on although the signal had fired before.");
}

export async function provesAbortedRead(subject: Subject): Promise<void> {
  const controller = new AbortController();
  const reading = subject.driver.power.read(await makeCall(subject, { signal: controller.signal }));
  setImmediate(() => controller.abort(new Error("aborted by the conformance suite")));
  // The read may finish before the signal fires. Only its end matters.
  await within(
    reading.catch(() => undefined),
    PROMPT_SECONDS,
    "power.read",
  );
}

export async function provesInspection(subject: Subject): Promise<void> {
  const { driver } = subject;
  if (driver.inspect === undefined) return void subject.unsupported.push("The driver inspects no machine.");
  if (!driver.inspect.withoutReboot) await switchPower(subject, "OFF", "OFF");
  for (const step of driver.inspect.steps) {
    if (step.args !== undefined && (await issuesOf(step.args, {})).length > 0) continue;
    for (const output of await outputsOf(subject, step)) {
      ensure(
        output === undefined || isRecord(output),
        `The output of step ${step.name} is not an object, so it cannot be merged into the inventory.`,
      );
    }
  }
}

export async function provesDriveless(subject: Subject): Promise<void> {
  const { driver, options, unsupported } = subject;
  const erasing = driver.clean?.steps.filter(({ erases }) => erases) ?? [];
  if (erasing.length === 0) return void unsupported.push("The driver erases no disks.");
  if (options.driveless === undefined)
    return void unsupported.push("No machine without drives was given: pass its settings as `driveless`.");
  const bare = { ...subject, options: { ...options, settings: options.driveless } };
  for (const step of erasing) {
    const result = await performStep(bare, step);
    const account = result.kind === "done" ? parseDiskAccount(result.output) : [];
    ensure(
      result.kind === "failed" || (Array.isArray(account) && account.length > 0),
      `Step ${step.name} succeeds on a machine without drives, although nothing says that it has none.`,
    );
  }
}

export async function provesChosenSteps(subject: Subject): Promise<void> {
  const { driver, options } = subject;
  for (const { interface: interfaceName, step: name, args = {} } of options.steps ?? []) {
    const step = driver[interfaceName]?.steps.find((one) => one.name === name);
    ensure(
      step !== undefined,
      `The option \`steps\` names ${interfaceName}.${name}, which the driver does not declare.`,
    );
    const checked =
      step.args === undefined
        ? args
        : ((await accept(step.args, args, `the arguments of step ${name}`)) as typeof args);
    await outputsOf(subject, step, checked);
  }
}

/**
 * Outputs of a step, which is entered twice with the same key if it is idempotent. Before, its `abort` is called twice:
 * after a failure there may be nothing to undo, and it must be harmless.
 */
async function outputsOf(
  subject: Subject,
  step: Step<unknown>,
  args: Readonly<Record<string, Json>> = {},
): Promise<unknown[]> {
  const outputs: unknown[] = [];
  for (const time of ["first", "second"])
    await abortStep(subject, step, args).catch((error: unknown) =>
      ensure(
        false,
        `\`abort\` of step ${step.name}, called the ${time} time with nothing to undo, fails: ${describe(error)}`,
      ),
    );
  for (const entry of step.idempotent ? ["first", "second"] : ["first"]) {
    const result = await performStep(subject, step, args);
    ensure(
      result.kind === "done",
      `Step ${step.name}, entered the ${entry} time with the same attemptKey, returns ${JSON.stringify(result)}.`,
    );
    ensure(result.output === undefined || isJson(result.output), `The output of step ${step.name} is not plain JSON.`);
    const account = step.erases ? parseDiskAccount(result.output) : [];
    if ("flaw" in account) ensure(false, `Step ${step.name} declares \`erases\`, and ${account.flaw}.`);
    outputs.push(result.output);
  }
  return outputs;
}

export async function provesRefusedLogin(subject: Subject): Promise<void> {
  const { driver, options, logged } = subject;
  const settings = options.refused ?? {};
  const call = await makeCall(subject, { settings });
  const failure: unknown = await driver.power.read(call).then(
    () => undefined,
    (error: unknown) => error,
  );
  ensure(failure !== undefined, "The driver reads the power with settings that the machine should refuse.");
  ensureRefusedLogin(failure, { logged, secrets: secretsIn(driver.settings, settings), option: "refused" });
}
