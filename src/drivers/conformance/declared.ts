/** Checks of what a driver declares besides its settings: the contract, names, steps and their arguments. */
import type { Driver, StepInterface } from "../driver.ts";
import { jsonSchemaOf } from "../settings-shape.ts";
import { hold } from "./proof.ts";
import { fieldsOf, issuesOf } from "./schemas.ts";
import type { Subject } from "./subject.ts";

type InterfaceName = "inspect" | "clean" | "deploy";

const NAME = /^[a-z][a-z0-9]*(_[a-z0-9]+)*$/;
const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;
const INTERRUPTIBLE: readonly unknown[] = ["ALWAYS", "AT_BOUNDARY", "NEVER"];

export function provesContract({ driver }: Subject): void {
  hold(driver.contract === 1, `The driver declares contract ${String(driver.contract)}; this suite knows 1.`);
  hold(
    typeof driver.power?.read === "function" && typeof driver.power.set === "function",
    "The driver has no `power.read` and `power.set`.",
  );
}

export function provesNames({ driver }: Subject): void {
  hold(NAME.test(driver.name), `The name "${driver.name}" is not lower-case words joined by _.`);
  hold(VERSION.test(driver.version), `The version "${driver.version}" is not like 1.2.3.`);
  hold(driver.description.trim() !== "", "The description is empty.");
}

export function provesPhases({ driver }: Subject): void {
  const fits: Readonly<Record<InterfaceName, readonly string[]>> = {
    inspect: ["inspect"],
    clean: ["clean"],
    deploy: ["deploy", "undeploy"],
  };
  for (const { interfaceName, steps } of interfacesOf(driver)) {
    for (const step of steps.steps) {
      hold(
        fits[interfaceName].includes(step.phase),
        `Step ${step.name} of phase ${step.phase} stands in the interface \`${interfaceName}\`.`,
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
      hold(NAME.test(step.name), `${where}: the name is not lower-case words joined by underscores.`);
      hold(!seen.has(key), `${where}: phase ${step.phase} has two steps of this name.`);
      seen.add(key);
      hold(step.title.trim() !== "", `${where} has no title.`);
      hold(isCount(step.priority), `${where}: priority ${step.priority} is not a whole number from 0 up.`);
      hold(INTERRUPTIBLE.includes(step.interruptible), `${where}: interruptible is ${step.interruptible}.`);
      hold(
        Number.isFinite(step.timeoutSeconds) && step.timeoutSeconds > 0,
        `${where}: timeoutSeconds ${step.timeoutSeconds} is not above 0.`,
      );
      hold(typeof step.idempotent === "boolean", `${where} does not say whether it is idempotent.`);
      hold(
        step.retries === undefined || isCount(step.retries.times),
        `${where}: retries.times is not a whole number from 0 up.`,
      );
      const backoff = step.retries?.backoffSeconds ?? 0;
      hold(Number.isFinite(backoff) && backoff >= 0, `${where}: retries.backoffSeconds is not 0 or more.`);
      hold(
        step.reaches === undefined || step.phase === "deploy",
        `${where} reaches ${step.reaches}, but is no step of phase deploy.`,
      );
      hold(typeof step.run === "function", `${where} has no \`run\`.`);
      hold(step.verify === undefined || typeof step.verify === "function", `${where}: \`verify\` is no function.`);
    }
  }
}

export function provesUndeploy({ driver }: Subject): void {
  const steps = driver.deploy?.steps ?? [];
  if (!steps.some((step) => step.phase === "deploy")) return;
  hold(
    steps.some((step) => step.phase === "undeploy"),
    "The driver has steps of phase deploy, but none of phase undeploy.",
  );
}

export function provesAbort({ driver }: Subject): void {
  for (const { interfaceName, steps } of interfacesOf(driver)) {
    const aborting = steps.supportsAbort ? undefined : steps.steps.find((step) => step.abort !== undefined);
    hold(
      aborting === undefined,
      `Step ${aborting?.name} has \`abort\`, but \`${interfaceName}\` does not support abort.`,
    );
  }
}

export async function provesArguments({ driver }: Subject): Promise<void> {
  for (const { steps } of interfacesOf(driver)) {
    for (const step of steps.steps) {
      if (step.args === undefined) continue;
      const schema = jsonSchemaOf(step.args);
      hold(
        schema["type"] === "object",
        `The JSON Schema of the arguments of step ${step.name} is not of type "object".`,
      );
      for (const field of fieldsOf(schema)) {
        hold(
          typeof field.schema["description"] === "string",
          `Argument "${field.path}" of step ${step.name} has no description.`,
        );
      }
      const missing = await issuesOf(step.args, {});
      const required = schema["required"];
      const saysWhy = missing.every((issue) => issue.trim() !== "") && Array.isArray(required) && required.length > 0;
      hold(missing.length === 0 || saysWhy, `Step ${step.name} refuses empty arguments, but its schema requires none.`);
    }
  }
}

export async function provesClose({ options, driver }: Subject): Promise<void> {
  const other = await options.factory({ log: () => undefined });
  hold(other.name === driver.name, "The factory makes drivers of different names.");
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
