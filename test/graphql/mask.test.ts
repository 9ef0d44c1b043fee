/** What an error may say: never what stood in the input beside the mistake. */
import { afterAll, describe, expect, test } from "vitest";
import { withoutValues } from "../../src/graphql/mask.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const PASSWORD = "pw-that-must-not-come-back";
const settings = { password: PASSWORD };

describe("a message without values", () => {
  test.each([
    ['got invalid value { a: "x", b: { c: 1 } } at "input.nodes[0]"; found: { a: "}" }.', 'got invalid value {…} at "input.nodes[0]"; found: {…}.'],
    ["got invalid value [1, [2]] in it", "got invalid value […] in it"],
    ['found: { a: "never ended', "found: {…}"],
    ['of type "[NodeState!]!" must not be null', 'of type "[NodeState!]!" must not be null'],
    ["", ""],
  ])("%s", (message, expected) => expect(withoutValues(message)).toBe(expected));
});

describe("a mistake beside a password is told without the password", () => {
  const REGISTER = "mutation ($input: RegisterNodesInput!) { registerNodes(input: $input) { count } }";

  test.each([
    ["a missing field in variables", REGISTER, { input: { nodes: [{ driver: { fake: settings } }] } }, "name"],
    ["an unknown field in variables", REGISTER, { input: { nodes: [{ name: "a", driver: { fake: settings }, colour: 1 }] } }, "colour"],
    ["a missing field in the document", `mutation { registerNodes(input: { nodes: [{ driver: { fake: { password: "${PASSWORD}" } } }] }) { count } }`, {}, "name"],
    ["an unknown field in the document", `mutation { updateNode(input: { id: "a", colour: 1, driver: { fake: { password: "${PASSWORD}" } } }) { count } }`, {}, "colour"],
    ["an object in place of a text", `mutation { updateNode(input: { id: "a", name: { password: "${PASSWORD}" } }) { count } }`, {}, "String"],
  ])("%s", async (_title, text, variables, named) => {
    const { errors } = await ostler.ask(text, variables);
    expect(JSON.stringify(errors)).toContain(named);
    expect(JSON.stringify(errors)).not.toContain(PASSWORD);
  });

  test("over a socket as well", async () => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const client = ostler.client();
    client.subscribe({ query: REGISTER, variables: { input: { nodes: [{ driver: { fake: settings } }] } } }, { next: resolve, error: resolve, complete: () => {} });
    const answer = JSON.stringify(await promise);
    await client.dispose();
    expect(answer).toContain("name");
    expect(answer).not.toContain(PASSWORD);
  });
});
