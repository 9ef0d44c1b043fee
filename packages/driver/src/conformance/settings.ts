/** Checks of the settings that a driver declares for nodes and for discovery: shapes, descriptions, secrets. */
import type { Schema } from "../../../../src/drivers/driver.ts";
import {
  bindingNames,
  jsonSchemaOf,
  secretNames,
  shapeOf,
  shapeProblem,
} from "../../../../src/drivers/settings-shape.ts";
import { ensure } from "./proof.ts";
import { accept, canonical, fieldsOf, issuesOf, secretsIn } from "./schemas.ts";
import type { Subject } from "./subject.ts";

/** Names of fields that probably contain a secret. */
const SECRET_NAME = /(password|passphrase|secret|token|api_?key|private_?key)$/i;

export async function provesAcceptance({ driver, options }: Subject): Promise<void> {
  const once = await accept(driver.settings, options.settings, "the example settings");
  const twice = await accept(driver.settings, once, "its own output");
  ensure(canonical(once) === canonical(twice), "The settings schema changes its own output when it parses it again.");
}

export async function provesRefusal({ driver, options }: Subject): Promise<void> {
  const unknown = { ...options.settings, field_that_does_not_exist: true };
  ensure(
    (await issuesOf(driver.settings, unknown)).length > 0,
    "The settings schema accepts an unknown field, so a misspelt field would be ignored.",
  );
  for (const value of [undefined, null, true, 7, "settings", [], [options.settings]]) {
    ensure(
      (await issuesOf(driver.settings, value)).length > 0,
      `The settings schema accepts ${value === undefined ? "undefined" : JSON.stringify(value)}, which is not an object.`,
    );
  }
}

export function provesDescriptions({ driver }: Subject): void {
  ensureDescriptions(driver.settings);
}

export function provesShape({ driver }: Subject): void {
  ensureShape(driver.settings, "its settings");
  if (driver.discover) ensureShape(driver.discover.settings, "the settings of its discovery");
}

export function provesSecrets({ driver }: Subject): void {
  ensureSecrets(driver.settings);
}

export function provesBindings({ driver }: Subject): void {
  const shape = shapeOf(driver.settings);
  ensure(
    secretNames(shape).length === 0 || bindingNames(shape).length > 0,
    "The settings contain a secret, but none is marked `bindsSecret`: mark those that decide where the secret is sent, such as the address.",
  );
}

export async function provesDiscreetRefusal({ driver, options }: Subject): Promise<void> {
  const marker = "Xyzzy-0451-secret";
  for (const name of secretNames(shapeOf(driver.settings))) {
    // Too long for any secret; and invalid in another field. At least one of the two makes the schema report an issue.
    const invalid = [
      { ...options.settings, [name]: marker.repeat(500) },
      { ...options.settings, [name]: marker, field_that_does_not_exist: true },
    ];
    for (const value of invalid) {
      const reported = (await issuesOf(driver.settings, value)).join(" ");
      ensure(!reported.includes(marker), `The settings schema repeats the secret "${name}" when it refuses settings.`);
    }
  }
}

export async function provesController({ driver, options }: Subject): Promise<void> {
  const settings = await accept(driver.settings, options.settings, "the example settings");
  const again = await accept(driver.settings, settings, "its own output");
  for (const name of ["controllerOf", "systemOf"] as const) {
    if (driver[name] === undefined) continue;
    const identity: unknown = driver[name](settings);
    ensure(typeof identity === "string", `\`${name}\` returns ${typeof identity} instead of a string.`);
    ensure(driver[name](again) === identity, `\`${name}\` returns different identities for the same settings.`);
    const secret = secretsIn(driver.settings, options.settings).find(({ value }) => identity.includes(value));
    ensure(secret === undefined, `The result of \`${name}\` contains the secret "${secret?.name}".`);
  }
}

export async function provesDiscoverySettings({ driver, options }: Subject): Promise<void> {
  if (driver.discover === undefined) return;
  const { settings } = driver.discover;
  ensureDescriptions(settings);
  ensureSecrets(settings);
  if (options.discovery === undefined) return;
  const once = await accept(settings, options.discovery.settings, "the example settings of a discovery");
  const twice = await accept(settings, once, "its own output");
  ensure(
    canonical(once) === canonical(twice),
    "The schema of the discovery settings changes its own output when it parses it again.",
  );
  const unknown = { ...options.discovery.settings, field_that_does_not_exist: true };
  ensure(
    (await issuesOf(settings, unknown)).length > 0,
    "The schema of the discovery settings accepts an unknown field, so a misspelt field would be ignored.",
  );
}

function ensureDescriptions(settings: Schema<unknown>): void {
  const schema = jsonSchemaOf(settings);
  ensure(
    schema["type"] === "object",
    `The JSON Schema of the settings is of type ${JSON.stringify(schema["type"])}, not "object".`,
  );
  for (const field of fieldsOf(schema)) {
    const description = field.schema["description"];
    ensure(
      typeof description === "string" && description.trim() !== "",
      `The settings field "${field.path}" has no description.`,
    );
  }
}

function ensureShape(settings: Schema<unknown>, what: string): void {
  const problem = shapeProblem(settings, what);
  ensure(problem === null, `The driver cannot be loaded: ${problem}`);
  const shape = shapeOf(settings);
  ensure(
    shape.kind !== "object" || !shape.open,
    `GraphQL types cannot be generated from ${what}: the JSON Schema accepts fields that it does not name (\`additionalProperties\`), or declares conditions between fields (\`oneOf\`, \`if\`); move these to \`validate\`.`,
  );
}

function ensureSecrets(settings: Schema<unknown>): void {
  const problem = shapeProblem(settings, "the settings");
  ensure(problem === null, `The driver cannot be loaded: ${problem}`);
  const secrets = secretNames(shapeOf(settings));
  for (const field of fieldsOf(jsonSchemaOf(settings))) {
    const looksSecret = SECRET_NAME.test(field.name) && field.schema["type"] === "string";
    ensure(
      secrets.includes(field.path) || !looksSecret,
      `The settings field "${field.path}" looks like a secret, but is not marked \`writeOnly\`.`,
    );
  }
}
