/** Checks of the settings that a driver declares, of its nodes and of its discovery: shapes, descriptions, secrets. */
import type { Schema } from "../driver.ts";
import { jsonSchemaOf, secretNames, shapeProblem, shapeOf } from "../settings-shape.ts";
import { hold } from "./proof.ts";
import { accept, canonical, fieldsOf, issuesOf, secretsIn } from "./schemas.ts";
import type { Subject } from "./subject.ts";

/** Fields that by their name hold a secret. */
const SECRET_NAME = /(password|passphrase|secret|token|api_?key|private_?key)$/i;

export async function provesAcceptance({ driver, options }: Subject): Promise<void> {
  const once = await accept(driver.settings, options.settings, "the example settings");
  const twice = await accept(driver.settings, once, "its own output");
  hold(canonical(once) === canonical(twice), "The settings schema makes something else of its own output.");
}

export async function provesRefusal({ driver, options }: Subject): Promise<void> {
  const unknown = { ...options.settings, field_that_nobody_knows: true };
  hold(
    (await issuesOf(driver.settings, unknown)).length > 0,
    "The settings schema lets an unknown field through, so a misspelt field would go unseen.",
  );
  for (const value of [undefined, null, true, 7, "settings", [], [options.settings]]) {
    hold(
      (await issuesOf(driver.settings, value)).length > 0,
      `The settings schema accepts ${value === undefined ? "undefined" : JSON.stringify(value)}, which is not an object.`,
    );
  }
}

export function provesDescriptions({ driver }: Subject): void {
  holdDescriptions(driver.settings);
}

export function provesShape({ driver }: Subject): void {
  holdShape(driver.settings, "its settings");
  if (driver.discover) holdShape(driver.discover.settings, "the settings of its discovery");
}

export function provesSecrets({ driver }: Subject): void {
  holdSecrets(driver.settings);
}

export async function provesDiscreetRefusal({ driver, options }: Subject): Promise<void> {
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

export async function provesController({ driver, options }: Subject): Promise<void> {
  if (driver.controllerOf === undefined) return;
  const settings = await accept(driver.settings, options.settings, "the example settings");
  const controller: unknown = driver.controllerOf(settings);
  hold(typeof controller === "string", `The controller of a node is told as ${typeof controller}, not as a text.`);
  hold(
    driver.controllerOf(await accept(driver.settings, settings, "its own output")) === controller,
    "The same settings are told to lead to two controllers.",
  );
  const secret = secretsIn(driver.settings, options.settings).find(({ value }) => controller.includes(value));
  hold(secret === undefined, `The text that tells the controller holds the secret "${secret?.name}".`);
}

export async function provesDiscoverySettings({ driver, options }: Subject): Promise<void> {
  if (driver.discover === undefined) return;
  const { settings } = driver.discover;
  holdDescriptions(settings);
  holdSecrets(settings);
  if (options.discovery === undefined) return;
  const once = await accept(settings, options.discovery.settings, "the example settings of a discovery");
  const twice = await accept(settings, once, "its own output");
  hold(
    canonical(once) === canonical(twice),
    "The schema of the discovery's settings makes something else of its own output.",
  );
  const unknown = { ...options.discovery.settings, field_that_nobody_knows: true };
  hold(
    (await issuesOf(settings, unknown)).length > 0,
    "The schema of the discovery's settings lets an unknown field through, so a misspelt field would go unseen.",
  );
}

function holdDescriptions(settings: Schema<unknown>): void {
  const schema = jsonSchemaOf(settings);
  hold(
    schema["type"] === "object",
    `The JSON Schema of the settings is of type ${JSON.stringify(schema["type"])}, not "object".`,
  );
  for (const field of fieldsOf(schema)) {
    const description = field.schema["description"];
    hold(
      typeof description === "string" && description.trim() !== "",
      `The settings field "${field.path}" has no description.`,
    );
  }
}

function holdShape(settings: Schema<unknown>, what: string): void {
  const flaw = shapeProblem(settings, what);
  hold(flaw === null, `The driver cannot be loaded: ${flaw}`);
  const shape = shapeOf(settings);
  hold(
    shape.kind !== "object" || !shape.open,
    `No types can be made of ${what}: the JSON Schema takes fields that it does not name (\`additionalProperties\`), or says what goes with what (\`oneOf\`, \`if\`), which is better left to \`validate\`.`,
  );
}

function holdSecrets(settings: Schema<unknown>): void {
  const flaw = shapeProblem(settings, "the settings");
  hold(flaw === null, `The driver cannot be loaded: ${flaw}`);
  const secrets = secretNames(shapeOf(settings));
  for (const field of fieldsOf(jsonSchemaOf(settings))) {
    const looksSecret = SECRET_NAME.test(field.name) && field.schema["type"] === "string";
    hold(
      secrets.includes(field.path) || !looksSecret,
      `The settings field "${field.path}" looks like a secret, but is not marked \`writeOnly\`.`,
    );
  }
}
