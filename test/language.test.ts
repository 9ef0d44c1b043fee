/** The check of the language (docs/check-language.ts): it finds each word of its list, and no legitimate use. */
import { describe, expect, test } from "vitest";
import { compare, findingsOf, lowered } from "../docs/check-language.ts";
import { RULES } from "../docs/language-rules.ts";

const rulesIn = (text: string, file = "src/engine/engine.ts") => findingsOf(file, text).map(({ rule }) => rule.name);

const SAMPLES: readonly (readonly [rule: string, text: string])[] = [
  ["tell", "// Tells the caller."],
  ["tell", "// It was told."],
  ["tell", "let toldAt = 0;"],
  ["tell", "class UntoldError {}"],
  ["said", "// What the driver said."],
  ["nobody", "const NOBODY = null;"],
  ["somebody", "// Somebody else has it."],
  ["anybody", "// not for anybody"],
  ["everybody", "// heard by everybody"],
  ["whoever", "// Whoever claims it."],
  ["wish", "const operationWish = null;"],
  ["wish", "  // wishBy: the caller"],
  ["bell", "writerBell.close();"],
  ["ring", "notifier.ring();"],
  ["ring", "source.onRing(look);"],
  ["seal", "const isSealOf = 1;"],
  ["call-back", "// waits for the call-back"],
  ["call-back", "const onCallBack = 1;"],
  ["time-out", "// Time-outs are failures."],
  ["time-out", "const timeOut = 1;"],
  ["anew", "// begins anew"],
  ["thereof", "// the name thereof"],
  ["besides", "// besides the records"],
  ["house", "const HOUSE = 1;"],
  ["room", "// every file of the room"],
  ["room", "const rooms = [];"],
  ["stretch", "async function stretch() {}"],
  ["let go", "// It is let go."],
  ["let go", "run.letGo();"],
  ["has gone", "// The client has gone."],
  ["at work", "// A step is at work."],
  ["in hand", "// runs in hand"],
  ["in hand", "// in the hands of another replica"],
  ["for ever", "// waits for ever"],
  ["by itself", "// ends by itself"],
  ["as ever", "// goes on as ever"],
  ["so many", "// So many runs at most."],
  ["so many", "/**\n * At most so\n * many runs.\n */"],
  ["does not do", "`The name does not do: letters only.`"],
  ["does no harm", "// That does no harm."],
  ["is no X", '"abc is no UUID."'],
  ["is no X", "// are no JSON objects"],
  ["relative clause as subject", "// Those that wait go first."],
  ["relative clause as subject", "/** Whatever is missing. */"],
  ["What … as the subject of a comment", "/** What an inspection found. */"],
  ["Of X: …", "/** Of POWER: the action. */"],
  ["Of X: …", 'description: "Of POWER: the action."'],
  ["place, turn (of a limit)", "// It waits for its turn."],
  ["place, turn (of a limit)", "turnOf(node);"],
  ["asked together", "askedTogether(load);"],
];

test.each(SAMPLES)("the language check finds %j in %j", (rule, text) => {
  expect(rulesIn(text)).toEqual([rule]);
});

test("every rule of the language check has a sample in this test", () => {
  const sampled = new Set(SAMPLES.map(([rule]) => rule));
  expect(RULES.flatMap(({ name }) => (sampled.has(name) ? [] : [name]))).toEqual([]);
});

test.each([
  ["an existential no", "// There is no limit; here is no call. It is no longer valid and is no better."],
  ["a timeout", "setTimeout(end, timeoutSeconds); // the timeout"],
  ["a callback", "callback(); const name = 'RejectedCallback';"],
  ["words that contain a listed one", "// retelling, foretold, housekeeping, swish, belly, sealing, bathroom"],
  ["room for something", "// There is room for two more; it makes room left over."],
  ["a label called room", 'labels: { room: "7" }'],
  ["a question", "/** What is a node? */"],
])("the language check does not flag %s", (_, text) => {
  expect(rulesIn(text)).toEqual([]);
});

// The sample has to hold words that the check finds.
test("the language check flags prose and programs in Markdown, but not inline code", () => {
  expect(rulesIn("The field `wish` was told.\n\n```ts\nnobody();\n```\n", "docs/page.md")).toEqual(["tell", "nobody"]);
});

test("a finding of the language check has its file, its line and the words as they stand in the file", () => {
  expect(findingsOf("src/a.ts", "const a = 1;\n// At most so\n// many.\n")).toMatchObject([
    { file: "src/a.ts", line: 2, text: "so many" },
  ]);
});

describe("the list of exceptions", () => {
  const two = findingsOf("src/a.ts", "// told\n// nobody\n");

  test("a file with more findings than listed fails the language check, and all findings are printed", () => {
    expect(compare(two, { "src/a.ts": 2 })).toEqual({ excess: [], stale: [] });
    expect(compare(two, { "src/a.ts": 1 }).excess).toEqual(two);
    expect(compare(two, {}).excess).toEqual(two);
  });

  test("a file with fewer findings than listed fails the language check, so that the list shrinks", () => {
    expect(compare(two, { "src/a.ts": 3 }).stale).toEqual(["src/a.ts: 3 listed, 2 found"]);
    expect(compare([], { "src/gone.ts": 1 }).stale).toHaveLength(1);
  });

  test("--update lowers the list of exceptions and never raises it; a moved file keeps its count", () => {
    const all = () => true;
    expect(lowered(two, { "src/a.ts": 5, "src/b.ts": 1 }, all)).toEqual({ "src/a.ts": 2 });
    expect(lowered(two, { "src/a.ts": 1 }, all)).toEqual({ "src/a.ts": 1 });
    expect(lowered(two, {}, all)).toEqual({});
    expect(lowered(two, { "src/old.ts": 2 }, () => false)).toEqual({ "src/a.ts": 2 });
    expect(lowered(two, { "src/old.ts": 1 }, () => false)).toEqual({ "src/a.ts": 1 });
  });
});
