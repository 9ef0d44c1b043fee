/** Numbers of callers are kept, or refused with their path: never stored as other numbers. */
import { afterAll, describe, expect, test } from "vitest";
import { isExact, parseExactly } from "../../src/runtime/exact-json.ts";
import { serviceUnderTest } from "../support/service.ts";
import { EACH_TRANSPORT } from "./transports.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const CHANGED = [
  "9007199254740993",
  "-9007199254740993",
  "12345678901234567890",
  "1e400",
  "-1e400",
  "1e-400",
  "0.1234567890123456789012",
  "12345678.1234567890123",
];
const KEPT = [
  "9007199254740992",
  "1.0",
  "1e3",
  "1E+3",
  "0.1",
  "0.10000000000000001",
  "-0",
  "-0.0e7",
  "1.50",
  "1e21",
  "5e-324",
  "0.30000000000000004",
];
const raw = (text: string): unknown => (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text);

test.each(CHANGED)("the number %s is not kept", (text) => {
  expect([isExact(text), parseExactly(`[${text}]`)]).toEqual([false, [Infinity]]);
});

test.each(KEPT)("the number %s is kept", (text) => {
  expect([isExact(text), parseExactly(`{"a":${text}}`)]).toEqual([true, { a: Number(text) }]);
});

test("digits in texts and keys are kept", () => {
  const text = '{"9007199254740993":"12345678901234567890 1e400","__proto__":{"a":1}}';
  expect(JSON.stringify(parseExactly(text))).toBe(text);
});

test("a number of a million digits is judged at once", () => {
  const before = performance.now();
  expect(isExact(`1${"0".repeat(1_000_000)}1`)).toBe(false);
  expect(isExact(`1.${"0".repeat(1_000_000)}`)).toBe(true);
  expect(performance.now() - before).toBeLessThan(2_000);
});

/** Has the form of a token, and belongs to no step. */
const TOKEN = `1b671a64-40d5-491e-99b0-da01ff1f3341.${"x".repeat(43)}`;
const CREATE =
  'mutation ($v: JSON) { createCluster(input: { name: "numbers", variables: $v }) { errors { message } } }';
const plan = (variables: string, head = "") =>
  `query ${head} { plan(input: { manageNodes: { nodes: { names: ["n1"] }, variables: ${variables} } }) { acceptedCount } }`;
const refusedAt = (path: string) => ({
  message: expect.stringContaining(`${path} is a number that cannot be kept`) as string,
  extensions: expect.objectContaining({ code: "BAD_USER_INPUT" }) as object,
});

describe.each(EACH_TRANSPORT)("over $name", ({ name, ask }) => {
  const isRead = name === "GET";
  test.each(CHANGED)(
    "the number %s in a variable is refused with its path, and nothing is stored [R-840]",
    async (text) => {
      const variables = { v: { ok: 1, list: [{ a: raw(text) }] } };
      const { errors } = await ask(ostler.url, { query: isRead ? plan("$v", "($v: JSON)") : CREATE, variables });
      const input = isRead ? "input.manageNodes" : "input";
      expect(errors).toMatchObject([refusedAt(`${input}.variables.list.0.a`)]);
      expect(await ostler.query("{ clusters { totalCount } }")).toEqual({ clusters: { totalCount: 0 } });
    },
  );

  test.each(CHANGED)("the number %s in the document is refused with its path", async (text) => {
    const { errors } = await ask(ostler.url, { query: plan(`{ ok: 1, list: [{ a: 1 }, { a: ${text} }] }`) });
    expect(errors).toMatchObject([refusedAt("input.manageNodes.variables.list.1.a")]);
  });

  test("a number in a variable within a value of the document is refused with its path", async () => {
    const query = plan("{ list: [1, $v] }", "($v: JSON)");
    const { errors } = await ask(ostler.url, { query, variables: { v: { a: raw("1e400") } } });
    expect(errors).toMatchObject([refusedAt("input.manageNodes.variables.list.1.a")]);
  });
});

test("a number of a callback that cannot be kept is refused with its path", async () => {
  const send = (body: string) => fetch(`${ostler.url}/callback/${TOKEN}`, { method: "POST", body });
  const refused = await send('{"disks":[{"bytes":9007199254740993}]}');
  expect([refused.status, await refused.json()]).toEqual([
    400,
    { error: expect.stringContaining("disks.0.bytes is a number that cannot be kept") as string },
  ]);
  expect((await send('{"disks":[{"bytes":9007199254740992}]}')).status).toBe(404);
});
