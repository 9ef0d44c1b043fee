/** The schema beside the last release's: what breaks a client is refused, unless a decision names it. */
import { buildSchema as parsedSchema } from "graphql";
import { describe, expect, test } from "vitest";
import { allDecisions, changesSince, lastRelease, newest, reportOf } from "../../docs/schema/changes.ts";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";

const RELEASED = `
  type Query { node(id: ID!): Node nodes(first: Int): [Node!]! old: Int }
  type Node { id: ID! state: NodeState! label: String! }
  enum NodeState { ACTIVE ERROR }
  input NodeInput { name: String! size: Int }
  type Mutation { add(input: NodeInput!): Node }
`;
const release = { version: "1.2.0", schema: parsedSchema(RELEASED) };
const since = (change: (text: string) => string, ...texts: string[]) =>
  changesSince(release, parsedSchema(change(RELEASED)), texts);

test("the schema has no breaking change since the last release without a decision", async ({ skip }) => {
  const last = lastRelease();
  if (last === null) return skip("nothing has been released");
  const { refused, undone } = changesSince(last, buildSchema(await describeDrivers()), allDecisions());
  expect({ refused, undone }).toEqual({ refused: [], undone: [] });
});

describe("a change", () => {
  test.each([
    ["a field less", (text: string) => text.replace(" old: Int", ""), "Field Query.old was removed."],
    [
      "a field that may be null now",
      (text: string) => text.replace("label: String!", "label: String"),
      "Field Node.label changed type from String! to String.",
    ],
    ["a value less", (text: string) => text.replace(" ERROR", ""), "Enum value NodeState.ERROR was removed."],
    [
      "an argument that must be given",
      (text: string) => text.replace("first: Int", "first: Int!"),
      "Argument Query.nodes(first:) has changed type from Int to Int!.",
    ],
    [
      "an input field that must be given",
      (text: string) => text.replace("size: Int", "size: Int more: Int!"),
      "A required field NodeInput.more was added.",
    ],
    [
      "a type less",
      (text: string) =>
        text.replace("input NodeInput", "input AddInput").replace("input: NodeInput!", "input: AddInput!"),
      "NodeInput was removed.",
    ],
  ])("of %s is refused", (_what, change, description) => {
    expect(since(change).refused).toContain(description);
    const { text, passes } = reportOf(since(change), "1.2.0");
    expect(passes).toBe(false);
    expect(text).toContain(`Breaks 1.2.0: ${description}\n`);
  });

  const without = (text: string) => text.replace(" old: Int", "");

  test("a breaking change with a decision passes and is listed", () => {
    const changes = since(
      without,
      "# 0099: Remove it\n\nNo client uses it.\n\n- Breaks 1.2.0: Field Query.old was removed.\n",
    );
    expect(changes).toEqual({ refused: [], decided: ["Field Query.old was removed."], undone: [], dangerous: [] });
    expect(reportOf(changes, "1.2.0")).toEqual({
      text: "Breaking changes since 1.2.0 that a decision allows:\n  Field Query.old was removed.\n",
      passes: true,
    });
  });

  test("a breaking change is refused if a decision mentions it elsewhere or for another release", () => {
    const report = since(
      without,
      "We talked of it: Breaks 1.2.0: Field Query.old was removed.",
      "Breaks 1.1.0: Field Query.old was removed.",
    );
    expect(report.refused).toEqual(["Field Query.old was removed."]);
    expect(report.undone).toEqual([]);
  });

  test("a decided change that was not made is refused", () => {
    const changes = since((text) => text, "Breaks 1.2.0: Field Query.old was removed.");
    expect(changes.undone).toEqual(["Field Query.old was removed."]);
    expect(reportOf(changes, "1.2.0").passes).toBe(false);
  });

  test("a dangerous change is listed and passes", () => {
    const changes = since((text) => text.replace("ERROR", "ERROR STOPPED"));
    expect(changes).toMatchObject({ refused: [], dangerous: ["Enum value NodeState.STOPPED was added."] });
    expect(reportOf(changes, "1.2.0").passes).toBe(true);
  });

  test("a brief report counts the changes that pass, and lists those that fail", () => {
    const changes = since((text) => without(text).replace("ERROR", "ERROR STOPPED"));
    const { text, passes } = reportOf(changes, "1.2.0", { isBrief: true });
    expect(passes).toBe(false);
    expect(text).toContain("since 1.2.0 that pass: 0 breaking, 1 dangerous.");
    expect(text).not.toContain("NodeState.STOPPED");
    expect(text).toContain("Breaks 1.2.0: Field Query.old was removed.\n");
  });

  test("additions and descriptions are not listed", () => {
    expect(
      reportOf(
        since((text) => text.replace("old: Int", '"Described." old: Int new: Int')),
        "1.2.0",
      ),
    ).toEqual({ text: "No breaking or dangerous change since 1.2.0.\n", passes: true });
  });
});

test("lastRelease is the highest version, with a release after its previews", () => {
  expect(newest(["0.9.0", "0.10.0", "0.10.0-preview.2"])).toBe("0.10.0");
  expect(newest(["0.10.0-preview.9", "0.10.0-preview.10", "0.9.9"])).toBe("0.10.0-preview.10");
  expect(newest(["1.0.0-preview", "1.0.0-preview.1"])).toBe("1.0.0-preview.1");
  expect(newest([])).toBeUndefined();
});
