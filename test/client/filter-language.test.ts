/** The text form of filters: what it parses to, what it refuses and where, and that its printed form is equal. */
import { describe, expect, test } from "vitest";
import { completeFilter, parseFilter, printFilter, toNodeFilter } from "../../packages/client/src/filter-language.ts";
import type { FilterTerm } from "../../packages/client/src/filter-language.ts";
import { NODE_STATES } from "../../packages/client/src/node-state.ts";
import { serviceUnderTest } from "../support/service.ts";
import { randomOfTest } from "../support/random.ts";

const NOW = new Date("2026-01-02T12:00:00Z");

function termsOf(text: string): readonly FilterTerm[] {
  const found = parseFilter(text);
  if ("flaw" in found) throw new Error(found.flaw.message);
  return found.terms;
}

const filterOf = (text: string) => toNodeFilter(termsOf(text), NOW);

test.each([
  ["", {}],
  ["u07", { name: { contains: "u07" } }],
  ["u07,u08", { or: [{ name: { contains: "u07" } }, { name: { contains: "u08" } }] }],
  ["name:a,b", { name: { in: ["a", "b"] } }],
  ["name^rack3-", { name: { startsWith: "rack3-" } }],
  ["state:active", { states: ["ACTIVE"] }],
  ["state:CLEAN_FAILED,available", { states: ["AVAILABLE", "CLEAN_FAILED"] }],
  ["state:failed", { states: NODE_STATES.filter((state) => state.endsWith("FAILED")) }],
  ["state:working", { states: ["VERIFYING", "INSPECTING", "CLEANING", "DEPLOYING", "UNDEPLOYING"] }],
  ["state:waiting", { states: NODE_STATES.filter((state) => /WAIT|HOLD/.test(state)) }],
  ["cluster:berlin", { cluster: { name: "berlin" } }],
  ["cluster:none", { inCluster: false }],
  ["power:on,unknown", { powerStates: ["ON", "UNKNOWN"] }],
  ["presence:disappeared", { presences: ["DISAPPEARED"] }],
  ["error:in-use", { errorCodes: ["IN_USE"] }],
  ["driver:redfish group:worker", { driver: "redfish", hostGroup: "worker" }],
  ['model:"Big Box, 2\\""', { model: 'Big Box, 2"' }],
  ['model:"4*2"', { model: "4*2" }],
  ['"a=b"', { name: { contains: "a=b" } }],
  ["mac:aa:bb:cc:dd:ee:ff", { mac: "aa:bb:cc:dd:ee:ff" }],
  ["serial:S1", { serial: "S1" }],
  [
    "label.rack:r1,r2",
    { or: [{ labels: [{ key: "rack", value: "r1" }] }, { labels: [{ key: "rack", value: "r2" }] }] },
  ],
  ["label.a.b/c", { labelKeys: ["a.b/c"] }],
  ["is:maintenance is:drifted", { maintenance: true, powerDrift: true }],
  ["changed:2h", { changedSince: "2026-01-02T10:00:00.000Z" }],
  ["changed:2026-01-01T00:00:00+01:00", { changedSince: "2025-12-31T23:00:00.000Z" }],
  ["-state:active", { not: { states: ["ACTIVE"] } }],
  ["-is:error -u07", { not: { or: [{ withErrors: true }, { name: { contains: "u07" } }] } }],
  ["name^a name~b", { name: { startsWith: "a" }, not: { not: { name: { contains: "b" } } } }],
])("filter %j is the NodeFilter that its terms describe [R-1020]", (text, filter) => {
  expect(filterOf(text)).toEqual(filter);
  expect(termsOf(printFilter(termsOf(text)))).toEqual(termsOf(text));
});

test.each([
  ["stat:failed", 0, "state"],
  ["u07  state:actve", 11, "active"],
  ["state:active,", 13, null],
  ["state:", 6, null],
  ["-", 0, null],
  ["-powr:on", 1, "power"],
  ["model^x", 5, null],
  ["label.:x", 6, null],
  ["label.rack^x", 10, null],
  ['name:"a', 5, null],
  ['name:"a\\', 5, null],
  ['name:"a"b', 8, null],
  ["is:borken", 3, null],
  ["changed:soon", 8, null],
  ["changed:1h,2h", 11, null],
  ["constructor:x", 0, null],
  ["name:x-*", 7, null],
  ["-rack*", 5, null],
  ["model:a,Big*", 11, null],
  ["label.rack:r*", 12, null],
  ["state=failed", 0, "state:failed"],
  ["state!=failed", 0, "-state:failed"],
  ["u07 -state=failed", 4, "-state:failed"],
  ["u07 -state!=failed", 4, "state:failed"],
])("filter %j is refused at position %i, with the nearest word %j [R-1020]", (text, position, nearest) => {
  expect(parseFilter(text)).toMatchObject({ flaw: { position, nearest } });
});

test.each([
  ["name:x-*", "Use name^x- for the beginning, or name~x- for a part."],
  ["*-u07", "Use name^-u07 for the beginning, or name~-u07 for a part."],
  ["label.rack:*", "Use label.rack for every value of the label."],
  ["model:Big*", "model has whole values."],
  ["state:*", "Use failed, working"],
])("filter %j is refused with %j, because `*` would match nothing", (text, remedy) => {
  expect(parseFilter(text)).toMatchObject({ flaw: { message: expect.stringContaining(remedy) } });
});

test("filter with serial is refused for a stream", () => {
  expect(parseFilter("serial:S1", { stream: true })).toMatchObject({ flaw: { position: 0 } });
});

test("printFilter of random terms parses to the same terms", () => {
  const random = randomOfTest();
  const letters = ["a", "-", ":", ",", '"', "\\", " ", "^", "~", "*", "=", "ö", "\n"];
  for (let round = 0; round < 500; round += 1) {
    const text = () => Array.from({ length: random.whole(1, 6) }, () => random.one(letters)).join("");
    const terms = Array.from({ length: random.whole(1, 4) }, () => ({
      negated: random.often(0.5),
      field: random.one(["name", "model", "cluster", "label.a/b"]),
      operator: ":" as const,
      values: Array.from({ length: random.whole(1, 3) }, text),
    }));
    expect(parseFilter(printFilter(terms))).toEqual({ terms });
  }
});

describe("completeFilter", () => {
  test.each([
    ["st", undefined, { from: 0, options: ["state:"] }],
    ["u07 -cl", undefined, { from: 5, options: ["cluster:"] }],
    ["state:wo", undefined, { from: 6, options: ["working"] }],
    ["is:retired,fa", undefined, { from: 11, options: ["faulty"] }],
    ["cluster:", { cluster: ["a b"] }, { from: 8, options: ["none", '"a b"'] }],
    ["label.r", { label: ["rack"] }, { from: 0, options: ["label.rack"] }],
    ["constructor:", undefined, { from: 12, options: [] }],
  ])("after %j it lists what can follow", (text, known, completion) => {
    expect(completeFilter(text, undefined, known)).toEqual(completion);
  });
});

test("the service accepts each kind of term and selects as it says", async () => {
  await using ostler = await serviceUnderTest();
  const [one = "", two = ""] = await ostler.register(2, {});
  const namesOf = async (text: string) => {
    const { nodes } = await ostler.query<{ nodes: { nodes: { name: string }[] } }>(
      "query Q($filter: NodeFilter) { nodes(first: 10, filter: $filter) { nodes { name } } }",
      { filter: filterOf(text) },
    );
    return nodes.nodes.map(({ name }) => name).toSorted();
  };
  expect(await namesOf(`name:${one},${two}`)).toEqual([one, two].toSorted());
  expect(await namesOf(`-name:${one} state:enrolled`)).toEqual([two]);
  const all = "power:unknown presence:unseen -error:busy driver:fake -group:x -model:x -label.a:b -label.c";
  expect(
    await namesOf(`${all} cluster:none -is:error,faulty,drifted -is:retired -mac:aa:bb:cc:dd:ee:ff changed:1h`),
  ).toEqual([one, two].toSorted());
  expect(await namesOf("serial:none name^x name~y")).toEqual([]);
});
