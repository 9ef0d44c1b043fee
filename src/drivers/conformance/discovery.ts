/** Checks of a driver that finds machines, where one is and where none is. */
import { isRecord } from "../../runtime/json-values.ts";
import { makeCall, probe } from "./calls.ts";
import { PROMPT_SECONDS, describe, hold, holdRefusedLogin, isDriverError, within } from "./proof.ts";
import { accept, secretsIn } from "./schemas.ts";
import type { Subject } from "./subject.ts";

export async function provesDiscovery(subject: Subject): Promise<void> {
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
  hold(
    first === second,
    "Two probes of one address lead to two controllers, so a second discovery would register the machine again.",
  );
  hold(first !== "", "What a probe found has no controller, so a second discovery would register the machine again.");
}

export async function provesDeadAddress(subject: Subject): Promise<void> {
  const dead = subject.options.discovery?.dead;
  if (dead === undefined) return;
  const failure: unknown = await probe(subject, dead).then(
    () => undefined,
    (error: unknown) => error,
  );
  hold(failure !== undefined, `The driver finds a machine at ${dead}, where nothing answers.`);
  hold(isDriverError(failure), `A probe where nothing answers fails with no DriverError: ${describe(failure)}`);
  hold(
    failure.kind === "UNREACHABLE" || failure.kind === "TIMEOUT",
    `A probe where nothing answers counts as ${failure.kind}, not UNREACHABLE: ${failure.message}`,
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
  hold(failure !== undefined, "The driver finds a machine with a login that should be refused.");
  holdRefusedLogin(failure, {
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
  hold(failed, "`discover.probe` goes through although its signal had fired before.");
}
