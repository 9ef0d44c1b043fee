/** Errors name the mistake in the input, and never values beside it. */
import { afterAll, describe, expect, test } from "vitest";
import * as z from "zod";
import type { Driver } from "../../src/drivers/driver.ts";
import { maskError, withoutValues } from "../../src/graphql/base/error-masking.ts";
import { createLog } from "../../src/log.ts";
import { StatementTimeoutError } from "../../src/store/postgres/workarounds/statement-queue.ts";
import { aDriver } from "../support/driver.ts";
import { serviceUnderTest } from "../support/service.ts";

/** A driver with a required setting that can be one of some values. */
const strict = {
  ...aDriver("strict"),
  settings: z.strictObject({
    mode: z.enum(["FAST", "SAFE"]).meta({ description: "How it works." }),
    password: z.string().optional().meta({ description: "Password.", writeOnly: true }),
  }),
} as unknown as Driver<never>;

const ostler = await serviceUnderTest({ drivers: [strict] });
afterAll(() => ostler[Symbol.asyncDispose]());

const PASSWORD = "pw-that-must-not-come-back";
const PIN = "90417365";
const settings = { password: PASSWORD };

test("a statement that was cancelled, or waited too long for a connection, is TIMEOUT and not INTERNAL [R-782]", () => {
  const cancelled = Object.assign(new Error("canceling statement due to statement timeout"), { code: "57014" });
  for (const cause of [cancelled, new StatementTimeoutError(10)]) {
    const { extensions } = maskError(new Error("Failed query", { cause }), "r1", createLog("silent"));
    expect(extensions).toMatchObject({ code: "TIMEOUT", http: { status: 504 } });
  }
});

describe("a message without values", () => {
  test.each([
    [
      'got invalid value { a: "x", b: { c: 1 } } at "input.nodes[0]"; found: { a: "}" }.',
      'got invalid value {…} at "input.nodes[0]"; found: {…}.',
    ],
    ["got invalid value [1, [2]] in it", "got invalid value […] in it"],
    ['found: { a: "never ended', "found: {…}"],
    ['of type "[NodeState!]!" must not be null', 'of type "[NodeState!]!" must not be null'],
    ["", ""],
    [
      'Variable "$input" has invalid value at .nodes[0].driver.ipmi.password: String cannot represent a non string value: 123456',
      'Variable "$input" has invalid value at .nodes[0].driver.ipmi.password: String cannot represent a non string value.',
    ],
    [
      'Variable "$nodes" has invalid value at [0].lists[1][2]: String cannot represent a non string value: [3]',
      'Variable "$nodes" has invalid value at [0].lists[1][2]: String cannot represent a non string value.',
    ],
    [
      'Variable "$input" got invalid value "s3; cret" at "input.nodes[0].name"; Expected it.',
      'Variable "$input" got invalid value at "input.nodes[0].name"; Expected it.',
    ],
    ['Variable "$pin" got invalid value 1234; Expected it.', 'Variable "$pin" got invalid value; Expected it.'],
    ['Int cannot represent non-integer value: "s3c: ret"', "Int cannot represent non-integer value."],
    ['Expected value of type "A" to be an object, found: "s3cret".', 'Expected value of type "A" to be an object.'],
    [
      'Expected value of type "A" not to include unknown field "prt". Did you mean "port"? Found: { prt: 1 }.',
      'Expected value of type "A" not to include unknown field "prt". Did you mean "port"?',
    ],
    [
      'Value "s3\\"cret" does not exist in "A" enum. Did you mean the enum value "B"?',
      'The value does not exist in "A" enum. Did you mean the enum value "B"?',
    ],
    ['Syntax Error: Expected ":", found String "s3cret".', 'Syntax Error: Expected ":", found String.'],
    ['Syntax Error: Unexpected Name "qurey".', 'Syntax Error: Unexpected Name "qurey".'],
  ])("%s", (message, expected) => expect(withoutValues(message)).toBe(expected));
});

/** Requests with a password in them, each with a mistake, and a word of the answer that says which. */
const REGISTER = "mutation ($input: RegisterNodesInput!) { registerNodes(input: $input) { count } }";
const registered = (driver: unknown) => ({ input: { nodes: [{ name: "a", driver }] } });
const inDocument = (driver: string) =>
  `mutation { registerNodes(input: { nodes: [{ name: "a", driver: ${driver} }] }) { count } }`;
const MISTAKES: readonly [title: string, text: string, variables: Record<string, unknown>, named: string][] = [
  ["a missing field in variables", REGISTER, { input: { nodes: [{ driver: { fake: settings } }] } }, "name"],
  [
    "an unknown field in variables",
    REGISTER,
    { input: { nodes: [{ name: "a", driver: { fake: settings }, colour: 1 }] } },
    "colour",
  ],
  [
    "a missing field in the document",
    `mutation { registerNodes(input: { nodes: [{ driver: { fake: { password: "${PASSWORD}" } } }] }) { count } }`,
    {},
    "name",
  ],
  [
    "an unknown field in the document",
    `mutation { updateNodes(input: { nodes: { ids: ["a"] }, colour: 1, driver: { fake: { password: "${PASSWORD}" } } }) { changedCount } }`,
    {},
    "colour",
  ],
  [
    "an object in place of a text",
    `mutation { updateNodes(input: { nodes: { ids: ["a"] }, name: { password: "${PASSWORD}" } }) { changedCount } }`,
    {},
    "String",
  ],
  ["an unknown driver", REGISTER, registered({ redfish: settings }), "redfish"],
  ["an unknown setting", REGISTER, registered({ fake: { ...settings, delayMS: 1 } }), "delayMS"],
  ["two drivers", REGISTER, registered({ fake: settings, strict: { ...settings, mode: "FAST" } }), "exactly one field"],
  ["a required setting that is missing", REGISTER, registered({ strict: settings }), "mode"],
  ["a password in place of the settings", REGISTER, registered({ fake: PASSWORD }), "FakeSettingsInput"],
  ["a password in place of a driver", REGISTER, registered(PASSWORD), "DriverSettingsInput"],
  [
    "a list in place of a password",
    REGISTER,
    registered({ fake: { password: [PASSWORD] } }),
    ".nodes[0].driver.fake.password",
  ],
  [
    "a number in place of a password",
    REGISTER,
    registered({ fake: { password: Number(PIN) } }),
    ".nodes[0].driver.fake.password",
  ],
  [
    "a password in place of a number",
    REGISTER,
    registered({ fake: { delayMs: PASSWORD } }),
    ".nodes[0].driver.fake.delayMs",
  ],
  ["a password in place of a truth", REGISTER, registered({ fake: { dead: PASSWORD } }), ".nodes[0].driver.fake.dead"],
  [
    "a password in place of one of some values",
    REGISTER,
    registered({ strict: { mode: PASSWORD } }),
    ".nodes[0].driver.strict.mode",
  ],
  ["a number in place of a password, in the document", inDocument(`{ fake: { password: ${PIN} } }`), {}, "String"],
  [
    "a password in place of one of some values, in the document",
    inDocument(`{ strict: { mode: "${PASSWORD}" } }`),
    {},
    "StrictMode",
  ],
  ["a password without its colon", inDocument(`{ fake: { password "${PASSWORD}" } }`), {}, "Syntax Error"],
];

describe("a mistake beside a password is reported without the password", () => {
  test.each(MISTAKES)("%s", async (_title, text, variables, named) => {
    const { errors } = await ostler.ask(text, variables);
    expect(JSON.stringify(errors)).toContain(named);
    expect(holdsSecret(JSON.stringify(errors))).toBe(false);
    expect(holdsSecret(ostler.logLines.join("\n"))).toBe(false);
  });

  test.each(MISTAKES)("%s, over a socket", async (_title, text, variables, named) => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const client = ostler.client();
    client.subscribe({ query: text, variables }, { next: resolve, error: resolve, complete: () => {} });
    const answer = JSON.stringify(await promise);
    await client.dispose();
    expect(answer).toContain(named);
    expect(holdsSecret(answer)).toBe(false);
  });
});

const holdsSecret = (text: string) => text.includes(PASSWORD) || text.includes(PIN);
