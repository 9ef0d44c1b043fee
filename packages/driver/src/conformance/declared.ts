/** Checks of the declarations of a driver other than its settings: the contract, names, steps and their arguments. */
import type { Driver, StepInterface } from "../../../../src/drivers/driver.ts";
import { jsonSchemaOf } from "../../../../src/drivers/settings-shape.ts";
import { ensure } from "./proof.ts";
import { fieldsOf, issuesOf } from "./schemas.ts";
import type { Subject } from "./subject.ts";

type InterfaceName = "inspect" | "clean" | "deploy";

const NAME = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;
const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;
const INTERRUPTIBLE: readonly unknown[] = ["ALWAYS", "AT_BOUNDARY", "NEVER"];

export function provesContract({ driver }: Subject): void {
  ensure(
    driver.contract === 2,
    `The driver declares contract ${String(driver.contract)}; this suite checks version 2.`,
  );
  ensure(typeof driver.power?.read === "function", "The driver lacks `power.read`.");
}

export function provesNames({ driver }: Subject): void {
  ensure(NAME.test(driver.name), `The name "${driver.name}" is invalid: use lower-case words joined by underscores.`);
  ensure(
    VERSION.test(driver.version),
    `The version "${driver.version}" is invalid: use a semantic version such as 1.2.3.`,
  );
  ensure(driver.description.trim() !== "", "The description is empty.");
}

export function provesPhases({ driver }: Subject): void {
  const fits: Readonly<Record<InterfaceName, readonly string[]>> = {
    inspect: ["inspect"],
    clean: ["clean"],
    deploy: ["deploy", "undeploy"],
  };
  for (const { interfaceName, steps } of interfacesOf(driver)) {
    for (const step of steps.steps) {
      ensure(
        fits[interfaceName].includes(step.phase),
        `Step ${step.name} of phase ${step.phase} does not belong in the interface \`${interfaceName}\`.`,
      );
    }
  }
}

export function provesSteps({ driver }: Subject): void {
  for (const { interfaceName, steps } of interfacesOf(driver)) {
    const seen = new Set<string>();
    for (const step of steps.steps) {
      const where = `Step ${step.name} of \`${interfaceName}\``;
      const key = `${step.phase}/${step.name}`;
      ensure(NAME.test(step.name), `${where}: the name is invalid; use lower-case words joined by underscores.`);
      ensure(!seen.has(key), `${where}: phase ${step.phase} has two steps of this name.`);
      seen.add(key);
      ensure(step.title.trim() !== "", `${where} has no title.`);
      ensure(isCount(step.priority), `${where}: priority ${step.priority} is not an integer of 0 or more.`);
      ensure(
        INTERRUPTIBLE.includes(step.interruptible),
        `${where}: interruptible is ${step.interruptible}; use ${INTERRUPTIBLE.join(", ")}.`,
      );
      ensure(
        Number.isFinite(step.timeoutSeconds) && step.timeoutSeconds > 0,
        `${where}: timeoutSeconds ${step.timeoutSeconds} is not greater than 0.`,
      );
      ensure(typeof step.idempotent === "boolean", `${where}: idempotent is not a boolean.`);
      ensure(
        step.retries === undefined || isCount(step.retries.times),
        `${where}: retries.times is not an integer of 0 or more.`,
      );
      const backoff = step.retries?.backoffSeconds ?? 0;
      ensure(Number.isFinite(backoff) && backoff >= 0, `${where}: retries.backoffSeconds is not 0 or more.`);
      ensure(
        step.reaches === undefined || step.phase === "deploy",
        `${where} reaches ${step.reaches}, but belongs to phase ${step.phase}; only deploy steps can.`,
      );
      ensure(
        !step.outputs || step.phase === "deploy",
        `${where} declares outputs, but belongs to phase ${step.phase}; only deploy steps can.`,
      );
      ensure(
        !step.repeatOnRestart || step.phase === "clean",
        `${where} declares repeatOnRestart, but belongs to phase ${step.phase}; only clean steps can.`,
      );
      ensure(
        !step.worksAlone || step.touches === undefined || step.touches.includes("DISKS"),
        `${where} declares worksAlone, but does not touch disks.`,
      );
      ensure(
        !step.erases || step.phase === "clean" || step.phase === "undeploy",
        `${where} declares erases, but belongs to phase ${step.phase}; only clean and undeploy steps can.`,
      );
      ensure(typeof step.run === "function", `${where} has no \`run\`.`);
      ensure(step.verify === undefined || typeof step.verify === "function", `${where}: \`verify\` is not a function.`);
    }
  }
}

export function provesUndeploy({ driver }: Subject): void {
  const steps = driver.deploy?.steps ?? [];
  if (!steps.some((step) => step.phase === "deploy")) return;
  ensure(
    steps.some((step) => step.phase === "undeploy"),
    "The driver has steps of phase deploy, but none of phase undeploy.",
  );
}

export function provesAbort({ driver }: Subject): void {
  for (const { interfaceName, steps } of interfacesOf(driver)) {
    const aborting = steps.supportsAbort ? undefined : steps.steps.find((step) => step.abort !== undefined);
    ensure(
      aborting === undefined,
      `Step ${aborting?.name} has \`abort\`, but \`${interfaceName}\` does not support abort.`,
    );
  }
}

export function provesErasure({ driver }: Subject): void {
  const automatic = driver.clean?.steps.filter(({ priority }) => priority > 0) ?? [];
  const touching = automatic.find(({ touches = ["DISKS"] }) => touches.includes("DISKS"));
  ensure(
    touching === undefined || automatic.some(({ erases }) => erases),
    `Step ${touching?.name} cleans automatically and touches the disks, but no automatic clean step declares \`erases\`. Declare it for the step that erases the disks, and account for each in its output; or declare what the step touches.`,
  );
}

export async function provesArguments({ driver }: Subject): Promise<void> {
  for (const { steps } of interfacesOf(driver)) {
    for (const step of steps.steps) {
      if (step.args === undefined) continue;
      const schema = jsonSchemaOf(step.args);
      ensure(
        schema["type"] === "object",
        `The JSON Schema of the arguments of step ${step.name} is not of type "object".`,
      );
      for (const field of fieldsOf(schema)) {
        ensure(
          typeof field.schema["description"] === "string",
          `Argument "${field.path}" of step ${step.name} has no description.`,
        );
      }
      const missing = await issuesOf(step.args, {});
      const required = schema["required"];
      const saysWhy = missing.every((issue) => issue.trim() !== "") && Array.isArray(required) && required.length > 0;
      ensure(
        missing.length === 0 || saysWhy,
        `Step ${step.name} refuses empty arguments, but its JSON Schema requires none; list them in \`required\`.`,
      );
    }
  }
}

export async function provesClose({ options, driver }: Subject): Promise<void> {
  const other = await options.factory({ log: () => undefined });
  ensure(other.name === driver.name, "The factory creates drivers with different names.");
  await other.close?.();
}

function interfacesOf(driver: Driver<unknown>): { interfaceName: InterfaceName; steps: StepInterface<unknown> }[] {
  return (["inspect", "clean", "deploy"] as const).flatMap((interfaceName) => {
    const steps = driver[interfaceName];
    return steps === undefined ? [] : [{ interfaceName, steps }];
  });
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
