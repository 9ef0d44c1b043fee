/**
 * The conformance suite: what a driver must hold to be fit to ship. It knows no test runner, so it runs under any:
 *
 *     import { conformance } from "ostler/src/drivers/conformance/conformance.ts";
 *     import factory from "../plugins/example.ts";
 *
 *     for (const check of conformance({ factory, settings: { address: "192.0.2.7", password: "secret" } })) {
 *       test(check.title, check.run, check.timeoutSeconds * 1000);
 *     }
 *
 * Without `live` nothing is contacted: the checks read the declarations and the settings schema. With `live` the
 * settings must lead to a machine that may be SWITCHED ON AND OFF at will, best a simulated one; the checks then run
 * one after the other (they share the machine) and leave it off. With `refused` (settings that the same machine turns
 * away, a wrong password say) they also prove that an error says so and gives no secret away. With `discovery` a driver
 * that finds machines is shown where one is.
 *
 * A check that fails throws an Error whose message is a sentence about the driver. Each makes a driver of its own
 * and closes it.
 */
import type {
  Call, Driver, DriverFactory, Json, NodePower, PowerAction, PowerState, Schema, Step, StepCall, StepInterface, StepResult,
} from "../driver.ts";
import { secretNames, shapeFlaw, shapeOf } from "../settings-shape.ts";

export interface ConformanceOptions {
  /** The plugin's default export. */
  readonly factory: DriverFactory<unknown>;
  /** Settings that the schema accepts; every secret field should be filled. With `live`: those of the machine. */
  readonly settings: Readonly<Record<string, Json>>;
  /** Whether there is a machine behind the settings that may be switched on and off. */
  readonly live?: boolean;
  /** With `live`: settings that the machine refuses, with secrets of 8 characters or more. */
  readonly refused?: Readonly<Record<string, Json>>;
  /** With `live`: how long switching the machine or one inspection step may take. 60 where nothing is said. */
  readonly liveSeconds?: number;
  /** With `live`, for steps that wait for the machine to call back: makes it do so, and gives the body of the call. */
  readonly callBack?: (wait: { readonly step: string; readonly callbackPath: string; readonly memo: Json }) => Promise<Json>;
  /** For a driver that discovers; without it the settings of its discovery are looked at, and nothing is probed. */
  readonly discovery?: DiscoveryOptions;
}

export interface DiscoveryOptions {
  /** Settings that `discover.settings` accepts; every secret field should be filled. With `live`: those that the machine takes. */
  readonly settings: Readonly<Record<string, Json>>;
  /** With `live`: where the machine of `ConformanceOptions.settings` answers. */
  readonly address: string;
  /** With `live`: settings that the machine at that address refuses, with secrets of 8 characters or more. */
  readonly refused?: Readonly<Record<string, Json>>;
  /** With `live`: an address at which nothing answers. */
  readonly dead?: string;
}

export interface ConformanceCheck {
  /** A sentence about the driver that holds when `run` resolves. */
  readonly title: string;
  /** A bound for the runner: the check ends by itself before. */
  readonly timeoutSeconds: number;
  run(): Promise<void>;
}

/** All checks, in the order to run them in. */
export function conformance(options: ConformanceOptions): ConformanceCheck[] {
  const seconds = options.liveSeconds ?? 60;
  const check = (title: string, prove: (subject: Subject) => void | Promise<void>, timeoutSeconds = 30): ConformanceCheck => ({
    title,
    timeoutSeconds,
    run: () => withSubject(options, prove),
  });
  const declared = [
    check("implements version 1 of the contract", provesContract),
    check("has a name, a version and a description", provesNames),
    check("accepts the example settings, and its own output again", provesAcceptance),
    check("refuses unknown fields and what is not an object", provesRefusal),
    check("describes its settings as an object, and every field", provesDescriptions),
    check("declares settings that clients can be given types of", provesShape),
    check("marks its secrets, and they are strings", provesSecrets),
    check("gives no secret away when it refuses settings", provesDiscreetRefusal),
    check("declares steps that fit their interface", provesPhases),
    check("declares steps with sound names, numbers and retries", provesSteps),
    check("can undo what it can deploy", provesUndeploy),
    check("has steps with `abort` only where abort is supported", provesAbort),
    check("has arguments that may be left out, or says why not", provesArguments),
    check("tells the controller of a node by a text without secrets, always the same", provesController),
    check("describes the settings of its discovery, and marks their secrets", provesDiscoverySettings),
    check("can be made and closed twice", provesClose),
  ];
  if (options.live !== true) return declared;
  return [
    ...declared,
    check("reads the power", provesRead, seconds),
    check("switches on and off, and each twice to the same end", provesPower, 5 * seconds),
    check("reboots to on", provesReboot, 4 * seconds),
    check("sets every boot device, where it can set one", provesBootDevices, 5 * seconds),
    check("does nothing under a signal that has fired", provesAbortedSignal, 2 * seconds),
    check("ends promptly when the signal fires", provesAbortedRead, seconds),
    check("inspects to the same end when each step is entered twice", provesInspection, 10 * seconds),
    ...(options.discovery === undefined
      ? []
      : [
          check("discovers the machine, to the same node each time", provesDiscovery, 4 * seconds),
          check("discovers nothing where nothing answers, and says so", provesDeadAddress, seconds),
          check("discovers nothing where the login is refused, and gives no secret away", provesRefusedDiscovery, seconds),
          check("discovers nothing under a signal that has fired", provesAbortedDiscovery, seconds),
        ]),
    ...(options.refused === undefined ? [] : [check("tells a refused login from other failures, and no secret", provesRefusedLogin, seconds)]),
    check("leaves the machine off", (subject) => switchPower(subject, "OFF", "OFF"), seconds),
  ];
}

/** What a check works on. */
interface Subject {
  readonly options: ConformanceOptions;
  readonly driver: Driver<unknown>;
  /** Lines that the driver logged. */
  readonly logged: string[];
}

const NAME = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;
const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;
const INTERRUPTIBLE: readonly unknown[] = ["ALWAYS", "AT_BOUNDARY", "NEVER"];
const ERROR_KINDS: readonly unknown[] = ["AUTHENTICATION", "UNREACHABLE", "TIMEOUT", "REFUSED", "OTHER"];
const POWER_STATES: readonly unknown[] = ["ON", "OFF", "UNKNOWN"];
/** Fields that by their name hold a secret. */
const SECRET_NAME = /(password|passphrase|secret|token|api_?key|private_?key)$/i;
const PROMPT_SECONDS = 5;

async function withSubject(options: ConformanceOptions, prove: (subject: Subject) => void | Promise<void>): Promise<void> {
  const logged: string[] = [];
  const driver = await options.factory({ log: (message) => logged.push(message) });
  try {
    await prove({ options, driver, logged });
  } finally {
    await driver.close?.();
  }
}

// What is declared

function provesContract({ driver }: Subject): void {
  hold(driver.contract === 1, `The driver declares contract ${String(driver.contract)}; this suite knows 1.`);
  hold(typeof driver.power?.read === "function" && typeof driver.power.set === "function", "The driver has no `power.read` and `power.set`.");
}

function provesNames({ driver }: Subject): void {
  hold(NAME.test(driver.name), `The name "${driver.name}" is not lower-case words joined by _.`);
  hold(VERSION.test(driver.version), `The version "${driver.version}" is not like 1.2.3.`);
  hold(driver.description.trim() !== "", "The description is empty.");
}

async function provesAcceptance({ driver, options }: Subject): Promise<void> {
  const once = await accept(driver.settings, options.settings, "the example settings");
  const twice = await accept(driver.settings, once, "its own output");
  hold(canonical(once) === canonical(twice), "The settings schema makes something else of its own output.");
}

async function provesRefusal({ driver, options }: Subject): Promise<void> {
  const unknown = { ...options.settings, field_that_nobody_knows: true };
  hold((await issuesOf(driver.settings, unknown)).length > 0, "The settings schema lets an unknown field through, so a misspelt field would go unseen.");
  for (const value of [undefined, null, true, 7, "settings", [], [options.settings]]) {
    hold((await issuesOf(driver.settings, value)).length > 0, `The settings schema accepts ${value === undefined ? "undefined" : JSON.stringify(value)}, which is not an object.`);
  }
}

function provesDescriptions({ driver }: Subject): void {
  holdDescriptions(driver.settings);
}

function holdDescriptions(settings: Schema<unknown>): void {
  const schema = jsonSchema(settings);
  hold(schema["type"] === "object", `The JSON Schema of the settings is of type ${JSON.stringify(schema["type"])}, not "object".`);
  for (const field of fieldsOf(schema)) {
    const description = field.schema["description"];
    hold(typeof description === "string" && description.trim() !== "", `The settings field "${field.path}" has no description.`);
  }
}

function provesShape({ driver }: Subject): void {
  holdShape(driver.settings, "its settings");
  if (driver.discover) holdShape(driver.discover.settings, "the settings of its discovery");
}

function holdShape(settings: Schema<unknown>, what: string): void {
  const flaw = shapeFlaw(settings, what);
  hold(flaw === null, `The driver cannot be loaded: ${flaw}`);
  const shape = shapeOf(settings);
  hold(shape.kind !== "object" || !shape.open, `No types can be made of ${what}: the JSON Schema takes fields that it does not name (\`additionalProperties\`), or says what goes with what (\`oneOf\`, \`if\`), which is better left to \`validate\`.`);
}

function provesSecrets({ driver }: Subject): void {
  holdSecrets(driver.settings);
}

function holdSecrets(settings: Schema<unknown>): void {
  const flaw = shapeFlaw(settings, "the settings");
  hold(flaw === null, `The driver cannot be loaded: ${flaw}`);
  const secrets = secretNames(shapeOf(settings));
  for (const field of fieldsOf(jsonSchema(settings))) {
    const looksSecret = SECRET_NAME.test(field.name) && field.schema["type"] === "string";
    hold(secrets.includes(field.path) || !looksSecret, `The settings field "${field.path}" looks like a secret, but is not marked \`writeOnly\`.`);
  }
}

async function provesDiscreetRefusal({ driver, options }: Subject): Promise<void> {
  const marker = "Xyzzy-0451-secret";
  for (const name of secretNames(shapeOf(driver.settings))) {
    // Too long for any secret, and spoilt elsewhere as well, so that one of the two is what is complained of.
    const spoilt = [
      { ...options.settings, [name]: marker.repeat(500) },
      { ...options.settings, [name]: marker, field_that_nobody_knows: true },
    ];
    for (const value of spoilt) {
      const said = (await issuesOf(driver.settings, value)).join(" ");
      hold(!said.includes(marker), `The settings schema repeats the secret "${name}" when it refuses settings.`);
    }
  }
}

function provesPhases({ driver }: Subject): void {
  const fits: Readonly<Record<InterfaceName, readonly string[]>> = { inspect: ["inspect"], clean: ["clean"], deploy: ["deploy", "undeploy"] };
  for (const { interfaceName, steps } of interfacesOf(driver)) {
    for (const step of steps.steps) {
      hold(fits[interfaceName].includes(step.phase), `Step ${step.name} of phase ${step.phase} stands in the interface \`${interfaceName}\`.`);
    }
  }
}

function provesSteps({ driver }: Subject): void {
  for (const { interfaceName, steps } of interfacesOf(driver)) {
    const seen = new Set<string>();
    for (const step of steps.steps) {
      const where = `Step ${step.name} of \`${interfaceName}\``;
      const key = `${step.phase}/${step.name}`;
      hold(NAME.test(step.name), `${where}: the name is not lower-case words joined by underscores.`);
      hold(!seen.has(key), `${where}: phase ${step.phase} has two steps of this name.`);
      seen.add(key);
      hold(step.title.trim() !== "", `${where} has no title.`);
      hold(isCount(step.priority), `${where}: priority ${step.priority} is not a whole number from 0 up.`);
      hold(INTERRUPTIBLE.includes(step.interruptible), `${where}: interruptible is ${step.interruptible}.`);
      hold(Number.isFinite(step.timeoutSeconds) && step.timeoutSeconds > 0, `${where}: timeoutSeconds ${step.timeoutSeconds} is not above 0.`);
      hold(typeof step.idempotent === "boolean", `${where} does not say whether it is idempotent.`);
      hold(step.retries === undefined || isCount(step.retries.times), `${where}: retries.times is not a whole number from 0 up.`);
      const backoff = step.retries?.backoffSeconds ?? 0;
      hold(Number.isFinite(backoff) && backoff >= 0, `${where}: retries.backoffSeconds is not 0 or more.`);
      hold(step.reaches === undefined || step.phase === "deploy", `${where} reaches ${step.reaches}, but is no step of phase deploy.`);
      hold(typeof step.run === "function", `${where} has no \`run\`.`);
    }
  }
}

function provesUndeploy({ driver }: Subject): void {
  const steps = driver.deploy?.steps ?? [];
  if (!steps.some((step) => step.phase === "deploy")) return;
  hold(steps.some((step) => step.phase === "undeploy"), "The driver has steps of phase deploy, but none of phase undeploy.");
}

function provesAbort({ driver }: Subject): void {
  for (const { interfaceName, steps } of interfacesOf(driver)) {
    const aborting = steps.supportsAbort ? undefined : steps.steps.find((step) => step.abort !== undefined);
    hold(aborting === undefined, `Step ${aborting?.name} has \`abort\`, but \`${interfaceName}\` does not support abort.`);
  }
}

async function provesArguments({ driver }: Subject): Promise<void> {
  for (const { steps } of interfacesOf(driver)) {
    for (const step of steps.steps) {
      if (step.args === undefined) continue;
      const schema = jsonSchema(step.args);
      hold(schema["type"] === "object", `The JSON Schema of the arguments of step ${step.name} is not of type "object".`);
      for (const field of fieldsOf(schema)) {
        hold(typeof field.schema["description"] === "string", `Argument "${field.path}" of step ${step.name} has no description.`);
      }
      const missing = await issuesOf(step.args, {});
      const required = schema["required"];
      const saysWhy = missing.every((issue) => issue.trim() !== "") && Array.isArray(required) && required.length > 0;
      hold(missing.length === 0 || saysWhy, `Step ${step.name} refuses empty arguments, but its schema requires none.`);
    }
  }
}

async function provesController({ driver, options }: Subject): Promise<void> {
  if (driver.controllerOf === undefined) return;
  const settings = await accept(driver.settings, options.settings, "the example settings");
  const controller: unknown = driver.controllerOf(settings);
  hold(typeof controller === "string", `The controller of a node is told as ${typeof controller}, not as a text.`);
  hold(driver.controllerOf(await accept(driver.settings, settings, "its own output")) === controller, "The same settings are told to lead to two controllers.");
  const secret = secretsIn(driver.settings, options.settings).find(({ value }) => controller.includes(value));
  hold(secret === undefined, `The text that tells the controller holds the secret "${secret?.name}".`);
}

async function provesDiscoverySettings({ driver, options }: Subject): Promise<void> {
  if (driver.discover === undefined) return;
  const { settings } = driver.discover;
  holdDescriptions(settings);
  holdSecrets(settings);
  if (options.discovery === undefined) return;
  const once = await accept(settings, options.discovery.settings, "the example settings of a discovery");
  const twice = await accept(settings, once, "its own output");
  hold(canonical(once) === canonical(twice), "The schema of the discovery's settings makes something else of its own output.");
  const unknown = { ...options.discovery.settings, field_that_nobody_knows: true };
  hold((await issuesOf(settings, unknown)).length > 0, "The schema of the discovery's settings lets an unknown field through, so a misspelt field would go unseen.");
}

async function provesClose({ options, driver }: Subject): Promise<void> {
  const other = await options.factory({ log: () => undefined });
  hold(other.name === driver.name, "The factory makes drivers of different names.");
  await other.close?.();
}

// What a machine shows

async function provesRead(subject: Subject): Promise<void> {
  const state = await read(subject);
  hold(state !== "UNKNOWN", "The driver reads the power of the machine as UNKNOWN.");
}

async function provesPower(subject: Subject): Promise<void> {
  await switchPower(subject, "OFF", "OFF");
  for (const action of ["ON", "ON", "OFF", "OFF"] as const) await switchPower(subject, action, action);
}

async function provesReboot(subject: Subject): Promise<void> {
  await switchPower(subject, "ON", "ON");
  await switchPower(subject, "REBOOT", "ON");
}

async function provesBootDevices(subject: Subject): Promise<void> {
  const { driver } = subject;
  if (driver.power.setBootDevice === undefined) return;
  for (const device of ["PXE", "DISK", "CDROM", "BIOS"] as const) {
    for (const persistent of [false, true]) {
      try {
        await driver.power.setBootDevice(await makeCall(subject), device, { persistent });
      } catch (error) {
        // Not every machine starts from everything; then it says so.
        hold(isDriverError(error) && error.kind === "REFUSED", `Setting the boot device ${device} fails with something else than a refusal: ${describe(error)}`);
      }
    }
  }
}

async function provesAbortedSignal(subject: Subject): Promise<void> {
  await switchPower(subject, "OFF", "OFF");
  const signal = AbortSignal.abort(new Error("aborted by the conformance suite"));
  const call = await makeCall(subject, { signal });
  const attempts: readonly (readonly [string, () => Promise<unknown>])[] = [
    ["power.read", () => subject.driver.power.read(call)],
    ["power.set", () => subject.driver.power.set(call, "ON")],
  ];
  for (const [what, attempt] of attempts) {
    const began = Date.now();
    const failed = await within(attempt(), PROMPT_SECONDS, what).then(() => false, () => true);
    hold(failed, `\`${what}\` goes through although its signal had fired before.`);
    hold(Date.now() - began < 1000, `\`${what}\` takes ${Date.now() - began} ms to see that its signal had fired before.`);
  }
  hold((await read(subject)) === "OFF", "The driver switched the machine on although the signal had fired before.");
}

async function provesAbortedRead(subject: Subject): Promise<void> {
  const controller = new AbortController();
  const reading = subject.driver.power.read(await makeCall(subject, { signal: controller.signal }));
  setImmediate(() => controller.abort(new Error("aborted by the conformance suite")));
  // It may have been quicker than the signal; what counts is that it ends.
  await within(reading.catch(() => undefined), PROMPT_SECONDS, "power.read");
}

async function provesInspection(subject: Subject): Promise<void> {
  const { driver } = subject;
  if (driver.inspect === undefined) return;
  if (!driver.inspect.withoutReboot) await switchPower(subject, "OFF", "OFF");
  for (const step of driver.inspect.steps) {
    if (step.args !== undefined && (await issuesOf(step.args, {})).length > 0) continue;
    for (const entry of ["first", "second"]) {
      const result = await runStep(subject, step);
      hold(result.kind === "done", `Step ${step.name}, entered the ${entry} time with the same attemptKey, ends as ${JSON.stringify(result)}.`);
      if (result.output === undefined) continue;
      hold(isJson(result.output), `The output of step ${step.name} does not survive JSON.`);
      const isObject = typeof result.output === "object" && result.output !== null && !Array.isArray(result.output);
      hold(isObject, `The output of step ${step.name} is no object, so it cannot be merged into the inventory.`);
    }
  }
}

async function provesRefusedLogin(subject: Subject): Promise<void> {
  const { driver, options, logged } = subject;
  const settings = options.refused ?? {};
  const call = await makeCall(subject, { settings });
  const failure: unknown = await driver.power.read(call).then(() => undefined, (error: unknown) => error);
  hold(failure !== undefined, "The driver reads the power with settings that should be refused.");
  hold(isDriverError(failure), `A refused login is no DriverError: ${describe(failure)}`);
  hold(failure.kind === "AUTHENTICATION", `A refused login counts as ${failure.kind}, not AUTHENTICATION: ${failure.message}`);
  hold(failure.message.trim() !== "", "The error of a refused login has no message.");
  const said = [describe(failure), ...logged].join("\n");
  for (const { name, value } of secretsIn(driver.settings, settings)) {
    hold(value.length >= 8, `The secret "${name}" of the option \`refused\` is so short that a log may hold it by chance; take 8 characters or more.`);
    hold(!said.includes(value), `The error or the log of a refused login holds the secret "${name}".`);
  }
}

async function provesDiscovery(subject: Subject): Promise<void> {
  const { driver, options } = subject;
  const address = options.discovery?.address ?? "";
  const controllers = [];
  for (const time of ["first", "second"]) {
    const found = await probe(subject, address);
    hold(isRecord(found) && isRecord(found["settings"]), `The ${time} probe of ${address} answers no settings.`);
    hold(found["name"] === undefined || typeof found["name"] === "string", "The name that a machine tells is no text.");
    const settings = await accept(driver.settings, found["settings"], "what a probe found");
    await driver.power.read({ ...(await makeCall(subject)), settings });
    controllers.push(driver.controllerOf?.(settings));
  }
  const [first, second] = controllers;
  hold(first === second, "Two probes of one address lead to two controllers, so a second discovery would register the machine again.");
  hold(first !== "", "What a probe found has no controller, so a second discovery would register the machine again.");
}

async function provesDeadAddress(subject: Subject): Promise<void> {
  const dead = subject.options.discovery?.dead;
  if (dead === undefined) return;
  const failure: unknown = await probe(subject, dead).then(() => undefined, (error: unknown) => error);
  hold(failure !== undefined, `The driver finds a machine at ${dead}, where nothing answers.`);
  hold(isDriverError(failure), `A probe where nothing answers fails with no DriverError: ${describe(failure)}`);
  hold(failure.kind === "UNREACHABLE" || failure.kind === "TIMEOUT", `A probe where nothing answers counts as ${failure.kind}, not UNREACHABLE: ${failure.message}`);
}

async function provesRefusedDiscovery(subject: Subject): Promise<void> {
  const { driver, options, logged } = subject;
  const { address = "", refused } = options.discovery ?? {};
  if (refused === undefined || driver.discover === undefined) return;
  const failure: unknown = await probe(subject, address, { settings: refused }).then(() => undefined, (error: unknown) => error);
  hold(failure !== undefined, "The driver finds a machine with a login that should be refused.");
  hold(isDriverError(failure), `A refused login is no DriverError: ${describe(failure)}`);
  hold(failure.kind === "AUTHENTICATION", `A refused login counts as ${failure.kind}, not AUTHENTICATION: ${failure.message}`);
  const said = [describe(failure), ...logged].join("\n");
  for (const { name, value } of secretsIn(driver.discover.settings, refused)) {
    hold(value.length >= 8, `The secret "${name}" of the option \`discovery.refused\` is so short that a log may hold it by chance; take 8 characters or more.`);
    hold(!said.includes(value), `The error or the log of a refused login holds the secret "${name}".`);
  }
}

async function provesAbortedDiscovery(subject: Subject): Promise<void> {
  const signal = AbortSignal.abort(new Error("aborted by the conformance suite"));
  const failed = await within(probe(subject, subject.options.discovery?.address ?? "", { signal }), PROMPT_SECONDS, "discover.probe").then(() => false, () => true);
  hold(failed, "`discover.probe` goes through although its signal had fired before.");
}

async function probe({ driver, options, logged }: Subject, address: string, changes: { readonly signal?: AbortSignal; readonly settings?: Readonly<Record<string, Json>> } = {}): Promise<unknown> {
  hold(driver.discover !== undefined, "The driver has no `discover`, but the option `discovery` says that it finds machines.");
  const milliseconds = (options.liveSeconds ?? 60) * 1000;
  const settings = await accept(driver.discover.settings, changes.settings ?? options.discovery?.settings, "the settings of the discovery");
  return driver.discover.probe({
    address,
    settings: settings as Readonly<Record<string, Json>>,
    signal: changes.signal ?? AbortSignal.timeout(milliseconds),
    deadline: new Date(Date.now() + milliseconds),
    log: (message) => logged.push(message),
  });
}

async function read(subject: Subject): Promise<PowerState> {
  const state = await subject.driver.power.read(await makeCall(subject));
  hold(POWER_STATES.includes(state), `The driver reads the power as ${state}.`);
  return state;
}

async function switchPower(subject: Subject, action: PowerAction, state: PowerState): Promise<void> {
  await subject.driver.power.set(await makeCall(subject), action);
  const now = await read(subject);
  hold(now === state, `After ${action} the machine is ${now}.`);
}

/** Runs a step to its end, waits included. */
async function runStep(subject: Subject, step: Step<unknown>): Promise<Exclude<StepResult, { kind: "wait" }>> {
  const base = await makeCall(subject);
  const callbackPath = "/callback/conformance";
  let memo: Json = null;
  let callback: Json = null;
  for (;;) {
    const call: StepCall<unknown> = {
      ...base, args: {}, memo, callback, callbackPath, attemptKey: `conformance-${step.name}`, variables: {},
      power: boundPower(subject, base),
      progress(percent) {
        hold(percent >= 0 && percent <= 100, `Step ${step.name} reports ${percent} percent.`);
      },
    };
    const result = await step.run(call);
    if (result.kind !== "wait") return result;
    hold(isJson(result.memo), `The memo of step ${step.name} does not survive JSON.`);
    memo = JSON.parse(JSON.stringify(result.memo)) as Json;
    callback = null;
    if (result.callback === true && subject.options.callBack !== undefined) {
      callback = await subject.options.callBack({ step: step.name, callbackPath, memo });
    } else {
      const { seconds } = result;
      hold(seconds !== undefined, `Step ${step.name} waits for a call from the machine; pass \`callBack\`, which makes it.`);
      hold(Date.now() + seconds * 1000 < base.deadline.getTime(), `Step ${step.name} waits ${seconds} s, past the end of its time.`);
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    }
  }
}

function boundPower({ driver }: Subject, call: Call<unknown>): NodePower {
  return {
    read: () => driver.power.read(call),
    set: (action) => driver.power.set(call, action),
    async setBootDevice(device, options) {
      if (driver.power.setBootDevice === undefined) throw new Error("The driver cannot set a boot device.");
      await driver.power.setBootDevice(call, device, { persistent: options?.persistent ?? false });
    },
  };
}

async function makeCall(
  { driver, options, logged }: Subject,
  changes: { readonly signal?: AbortSignal; readonly settings?: Readonly<Record<string, Json>> } = {},
): Promise<Call<unknown>> {
  const milliseconds = (options.liveSeconds ?? 60) * 1000;
  return {
    node: { id: "00000000-0000-4000-8000-000000000001", name: "conformance", powerState: "UNKNOWN", labels: {} },
    settings: await accept(driver.settings, changes.settings ?? options.settings, "the settings"),
    signal: changes.signal ?? AbortSignal.timeout(milliseconds),
    deadline: new Date(Date.now() + milliseconds),
    log: (message) => logged.push(message),
  };
}

// Schemas and values

type InterfaceName = "inspect" | "clean" | "deploy";
type JsonSchema = Readonly<Record<string, unknown>>;

function interfacesOf(driver: Driver<unknown>): { interfaceName: InterfaceName; steps: StepInterface<unknown> }[] {
  return (["inspect", "clean", "deploy"] as const).flatMap((interfaceName) => {
    const steps = driver[interfaceName];
    return steps === undefined ? [] : [{ interfaceName, steps }];
  });
}

async function accept(schema: Schema<unknown>, value: unknown, what: string): Promise<unknown> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  throw new Error(`The settings schema refuses ${what}: ${result.issues.map((issue) => issue.message).join("; ")}.`);
}

async function issuesOf(schema: Schema<unknown>, value: unknown): Promise<string[]> {
  const result = await schema["~standard"].validate(value);
  return (result.issues ?? []).map((issue) => issue.message);
}

function jsonSchema(schema: Schema<unknown>): JsonSchema {
  return schema["~standard"].jsonSchema.input({ target: "draft-2020-12" });
}

/** Every field of an object schema, those of objects, lists and variants inside included; the path is joined by dots. */
function fieldsOf(schema: JsonSchema, path = ""): { name: string; path: string; schema: JsonSchema }[] {
  const properties = isRecord(schema["properties"]) ? Object.entries(schema["properties"]) : [];
  const own = properties.flatMap(([name, value]) => {
    if (!isRecord(value)) return [];
    const here = path === "" ? name : `${path}.${name}`;
    return [{ name, path: here, schema: value }, ...fieldsOf(value, here)];
  });
  const variants = ["anyOf", "oneOf", "allOf"].flatMap((key) => (Array.isArray(schema[key]) ? (schema[key] as unknown[]) : []));
  const inside = [...variants, schema["items"], schema["additionalProperties"]].filter(isRecord);
  return [...own, ...inside.flatMap((each) => fieldsOf(each, path))];
}

/** The secrets that settings hold. */
function secretsIn(schema: Schema<unknown>, settings: Readonly<Record<string, unknown>>): { readonly name: string; readonly value: string }[] {
  return secretNames(shapeOf(schema)).flatMap((name) => {
    const value = settings[name];
    return typeof value === "string" && value !== "" ? [{ name, value }] : [];
  });
}

/** JSON with sorted keys, to compare by. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inside: unknown) => (isRecord(inside) ? Object.fromEntries(Object.entries(inside).toSorted(([a], [b]) => (a < b ? -1 : 1))) : inside)) ?? "undefined";
}

/** Whether a value comes back from JSON as it went in: no dates, no undefined, no NaN. */
function isJson(value: unknown): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (Array.isArray(value)) return value.every(isJson);
  if (!isRecord(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return (prototype === Object.prototype || prototype === null) && Object.values(value).every(isJson);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function isDriverError(error: unknown): error is Error & { kind: string; retryable: boolean } {
  if (!(error instanceof Error) || error.name !== "DriverError") return false;
  const { kind, retryable } = error as { kind?: unknown; retryable?: unknown };
  return ERROR_KINDS.includes(kind) && typeof retryable === "boolean";
}

/** An error with its causes, as a log would hold it. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const more = error.cause === undefined ? "" : `\ncaused by ${describe(error.cause)}`;
  return `${error.stack ?? `${error.name}: ${error.message}`}\n${JSON.stringify(error)}${more}`;
}

async function within<T>(work: Promise<T>, seconds: number, what: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`\`${what}\` goes on for more than ${seconds} s after its signal fired.`)), seconds * 1000);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function hold(truth: boolean, sentence: string): asserts truth {
  if (!truth) throw new Error(sentence);
}
