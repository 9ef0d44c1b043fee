/** Checks of discovery, at an address with a machine and at one without. */
import { isRecord } from "../../../../src/runtime/json-values.ts";
import { makeCall, probe } from "./calls.ts";
import { PROMPT_SECONDS, describe, ensure, ensureRefusedLogin, isDriverError, within } from "./proof.ts";
import { accept, secretsIn } from "./schemas.ts";
import type { Subject } from "./subject.ts";

export async function provesDiscovery(subject: Subject): Promise<void> {
  const { driver, options } = subject;
  const address = options.discovery?.address ?? "";
  const controllers = [];
  for (const time of ["first", "second"]) {
    const answer = await probe(subject, address);
    const all: readonly unknown[] = Array.isArray(answer) && answer.length > 0 ? answer : [answer];
    for (const found of all) {
      ensure(isRecord(found) && isRecord(found["settings"]), `The ${time} probe of ${address} returns no settings.`);
      ensure(
        found["name"] === undefined || typeof found["name"] === "string",
        "The name of the machine that a probe returns is not a string.",
      );
      const settings = await accept(driver.settings, found["settings"], "the settings that a probe returned");
      await driver.power.read({ ...(await makeCall(subject)), settings });
      controllers.push(driver.controllerOf?.(settings));
    }
  }
  const [first] = controllers;
  ensure(
    new Set(controllers).size === 1,
    "Two probes of one address return settings with different controllers, so a second discovery would register the machine again.",
  );
  ensure(
    first !== "",
    "The settings that a probe returned have no controller, so a second discovery would register the machine again.",
  );
}

export async function provesDeadAddress(subject: Subject): Promise<void> {
  const dead = subject.options.discovery?.dead;
  if (dead === undefined) return;
  const failure: unknown = await probe(subject, dead).then(
    () => undefined,
    (error: unknown) => error,
  );
  ensure(failure !== undefined, `The driver finds a machine at ${dead}, although nothing answers there.`);
  ensure(isDriverError(failure), `A probe without an answer does not fail with a DriverError: ${describe(failure)}`);
  ensure(
    failure.kind === "UNREACHABLE" || failure.kind === "TIMEOUT",
    `A probe without an answer fails with ${failure.kind} instead of UNREACHABLE or TIMEOUT: ${failure.message}`,
  );
}

export async function provesRefusedDiscovery(subject: Subject): Promise<void> {
  const { driver, options, logged } = subject;
  const { address = "", refused } = options.discovery ?? {};
  if (refused === undefined || driver.discover === undefined) return;
  const failure: unknown = await probe(subject, address, { settings: refused }).then(
    () => undefined,
    (error: unknown) => error,
  );
  ensure(failure !== undefined, "The driver finds a machine with a login that the machine should refuse.");
  ensureRefusedLogin(failure, {
    logged,
    secrets: secretsIn(driver.discover.settings, refused),
    option: "discovery.refused",
  });
}

export async function provesAbortedDiscovery(subject: Subject): Promise<void> {
  const signal = AbortSignal.abort(new Error("aborted by the conformance suite"));
  const failed = await within(
    probe(subject, subject.options.discovery?.address ?? "", { signal }),
    PROMPT_SECONDS,
    "discover.probe",
  ).then(
    () => false,
    () => true,
  );
  ensure(failed, "`discover.probe` succeeds although its signal had fired before.");
}
