/** Texts of the console: of machines, of states, numbers and addresses. */
import { describe, expect, test } from "vitest";
import { parseFilter, toNodeFilter } from "../../packages/client/src/filter-language.ts";
import { NODE_STATES } from "../../packages/client/src/node-state.ts";
import { partOfPath, readParameters, writeParameters } from "../../packages/console/src/parameters.ts";
import { PROBLEMS, byUrgency, filterOf, groupKey, groupText } from "../../packages/console/src/words/attention.ts";
import { errorText, nodeSentence } from "../../packages/console/src/words/nodes.ts";
import { agoText, durationText, plural, timeText, withLocalTimes } from "../../packages/console/src/words/numbers.ts";
import {
  leftText,
  operationName,
  restartRefusal,
  waveText,
  wavesRefusal,
} from "../../packages/console/src/words/operations.ts";
import { explainingRun, nodeCountOf, runName, runText } from "../../packages/console/src/words/runs.ts";
import { cut, hiddenIn, plainText } from "../../packages/console/src/words/plain-text.ts";
import { signInReason } from "../../packages/console/src/words/sign-in.ts";
import {
  FAMILIES,
  familyOf,
  nodeFamilyOf,
  sentenceCase,
  workFamilyOf,
} from "../../packages/console/src/words/states.ts";
import { ATTENTION_KINDS } from "../../src/lifecycle/attention.ts";

describe("text of machines [R-1175]", () => {
  test.each([
    ["colors", "\u001b[1;31mred\u001b[0m", "red"],
    ["a title of a terminal", "\u001b]0;owned\u0007x", "x"],
    ["a title that does not end", "\u001b]0;owned", ""],
    ["text that runs from right to left", "abc\u202Egnp.exe", "abc·gnp.exe"],
    ["isolates", "\u2066a\u2069", "·a·"],
    ["other controls", "a\u0000b\u0008c\u0085d", "a·b·c·d"],
    ["separators of lines", "a\u2028b", "a·b"],
    ["line breaks and tabs", "a\r\nb\tc\n", "a\nb\tc\n"],
    ["markup", "<b>&amp;</b>", "<b>&amp;</b>"],
    ["scripts of people", "שלום مرحبا 日本 é", "שלום مرحبا 日本 é"],
  ])("%s", (_, given, shown) => {
    expect(plainText(given)).toBe(shown);
  });

  test("characters that are typed and not visible are named with their line", () => {
    expect(hiddenIn("a\tb\n\u202e\u200bc")).toEqual(["U+202E in line 2", "U+200B in line 2"]);
    expect(hiddenIn("👩‍🚀 é שלום")).toEqual([]);
  });

  test("a line of 64 KiB is cut, and the rest is counted", () => {
    expect(cut("x".repeat(65_536), 2_000)).toEqual({ text: "x".repeat(2_000), left: 63_536 });
    expect(cut("short", 2_000)).toEqual({ text: "short", left: 0 });
  });
});

test.each([
  ["", null],
  ['the socket was closed with 4403: Missing token. Send {"authorization": "Bearer TOKEN"} as the payload.', null],
  ['Send the token as "Authorization: Bearer …".', null],
  ['the socket was closed with 4403: The session ended. Send {"authorization": …}.', "The session ended."],
  ['The token is revoked. Send the token as "Authorization: Bearer …".', "The token is revoked."],
])("the sign-in shows why a session has ended, and nothing that is for programs: %j [R-1360]", (reason, shown) => {
  expect(signInReason(reason)).toBe(shown);
});

describe("states", () => {
  test("every state has a family, a state of a newer service too", () => {
    for (const state of NODE_STATES) expect(FAMILIES).toContain(familyOf(state));
    expect(NODE_STATES.filter((state) => familyOf(state) === "failed")).toEqual(
      NODE_STATES.filter((state) => state.endsWith("FAILED")),
    );
    expect([familyOf("REPAIRING"), familyOf("REPAIR_FAILED"), familyOf("NEW"), familyOf("")]).toEqual([
      "working",
      "failed",
      "rest",
      "rest",
    ]);
    expect(workFamilyOf("NEW")).toBe("rest");
  });

  const failure = { message: "no space left" };
  test.each([
    ["AVAILABLE", failure, null, "failed"],
    ["ACTIVE", failure, null, "failed"],
    ["AVAILABLE", null, null, "rest"],
    ["AVAILABLE", failure, { reason: "a disk comes" }, "rest"],
    ["CLEANING", failure, null, "working"],
    ["DEPLOY_FAILED", failure, { reason: "a disk comes" }, "failed"],
    ["STOPPED", failure, null, "aside"],
  ])("a node that was cleaned up after a failure is on the map as failed: %s %o %o [R-1392]", (...given) => {
    const [state, lastError, maintenance, family] = given;
    expect(nodeFamilyOf({ state, lastError, maintenance })).toBe(family);
  });

  test("states are shown in sentence case", () => {
    expect(sentenceCase("DEPLOY_FAILED")).toBe("Deploy failed");
  });
});

describe("numbers", () => {
  test.each([
    [-5, "0 s"],
    [0.4, "0 s"],
    [59, "59 s"],
    [60, "1 min"],
    [3_540, "59 min"],
    [3_599, "1 h"],
    [3_600, "1 h"],
    [7_800, "2 h 10 min"],
    [259_200, "3 days"],
  ])("%d seconds", (seconds, text) => {
    expect(durationText(seconds)).toBe(text);
  });

  test("numbers have their noun", () => {
    expect([plural(1, "node"), plural(0, "node"), plural(1_234, "node")]).toEqual(["1 node", "0 nodes", "1,234 nodes"]);
  });

  test("a moment of another day has its date, and one in the future is not ago", () => {
    const now = new Date("2026-11-27T12:00:00");
    expect(timeText("2026-11-27T08:05:09", now)).toBe("08:05:09");
    expect(timeText("2026-11-26T08:05:09", now)).toBe("2026-11-26 08:05:09");
    expect(timeText("garbage", now)).toBe("garbage");
    expect(agoText("2026-11-27T12:00:30", now)).toBe("0 s ago");
  });
});

describe("lines", () => {
  const node = {
    state: "CLEAN_FAILED",
    powerDrift: true,
    presence: "DISAPPEARED",
    protected: true,
    retired: true,
    maintenance: { reason: "fan" },
    fault: { message: "disk" },
    lastError: { message: "no space left" },
  };

  test("a node is one sentence with its marks", () => {
    expect(nodeSentence(node)).toBe(
      "Clean failed · no space left · Maintenance: fan · Fault: disk · Disappeared · Another power than was asked for · Protected · Retired",
    );
  });

  test("an error names its step once", () => {
    expect(errorText({ step: "write_image", message: "write_image failed: full" })).toBe("write_image failed: full");
    expect(errorText({ step: "write_image", message: "no answer" })).toBe("write_image: no answer");
    expect(errorText({ step: null, message: "no answer" })).toBe("no answer");
  });

  const operation = { uuid: "a", kind: "COMMISSION", totalCount: 500, cluster: { name: "oslo" } };

  test.each([
    [
      { kind: "WAVES_HALTED", state: null, step: null, cause: "1 node failed", causeCount: 1, operation },
      "Commission oslo: waves are halted: 1 node failed",
    ],
    [
      { kind: "FAILED", state: null, step: "write_image", cause: "full", causeCount: 1, operation },
      "write_image: full",
    ],
    [
      { kind: "FAILED", state: "DEPLOY_FAILED", step: "write_image", cause: "no space left", causeCount: 1 },
      "write_image: no space left",
    ],
    [
      { kind: "FAILED", state: "DEPLOY_FAILED", step: null, cause: "gone", causeCount: 2 },
      "Deploy failed: gone, and 1 other cause",
    ],
    [{ kind: "ON_HOLD", state: null, step: null, cause: "checked by hand", causeCount: 0 }, "on hold: checked by hand"],
    [
      { kind: "PENDING_CHANGES", state: null, step: null, cause: "new", causeCount: 1, cluster: { name: "oslo" } },
      "not as cluster oslo wants it: new",
    ],
    [{ kind: "LOST", state: null, step: null, cause: "new", causeCount: 3 }, "Lost: new, and 2 other causes"],
  ])("what needs attention is one line: case %#", (group, line) => {
    expect(groupText(group)).toBe(line);
  });

  test("the keys of two groups differ where they belong to two operations", () => {
    const group = { kind: "STOPPED", code: null, step: null, driver: null, state: "STOPPED", detail: null };
    const keys = ["a", "b"].map((uuid) => groupKey({ ...group, cluster: null, operation: { uuid } }));
    expect(new Set([...keys, groupKey({ ...group, cluster: { name: "a" }, operation: null })]).size).toBe(3);
  });

  test("what is broken comes first, and nodes that are only new stand apart [R-1339]", () => {
    const kinds = ["STOPPED", "FAILED", "STUCK", "FAULT"].map((kind) => ({ kind }));
    expect(byUrgency(kinds).map(({ kind }) => kind)).toEqual(["FAILED", "FAULT", "STOPPED", "STUCK"]);
    expect([...PROBLEMS, "PENDING_CHANGES"].toSorted()).toEqual(Object.keys(ATTENTION_KINDS).toSorted());
  });

  test.each([
    ["FAILED", null, { withErrors: true }],
    ["FAULT", null, { faulty: true }],
    ["POWER_DRIFT", null, { powerDrift: true }],
    ["MAINTENANCE", null, { maintenance: true }],
    ["PENDING_CHANGES", { name: "turin one" }, { cluster: { name: "turin one" } }],
  ])("the rest of a large group is a list by filter: %s", (kind, cluster, filter) => {
    const parsed = parseFilter(filterOf({ kind, cluster }) ?? "");
    expect("terms" in parsed && toNodeFilter(parsed.terms)).toEqual(filter);
    expect(filterOf({ kind: "STUCK", cluster: null })).toBeNull();
  });

  test("a time of the service in a sentence is shown as a time of this page", () => {
    const text = "It continues at 2026-01-02T10:00:05.123Z, or later.";
    const shown = timeText("2026-01-02T10:00:05.123Z", new Date(0));
    expect(withLocalTimes(text, new Date(0))).toBe(`It continues at ${shown}, or later.`);
  });

  test("an operation has the name of its cluster, or the number of its nodes", () => {
    expect(operationName({ kind: "COMMISSION", totalCount: 12, cluster: { name: "turin" } })).toBe("Commission turin");
    expect(operationName({ kind: "INSPECT", totalCount: 12, cluster: null })).toBe("Inspect 12 nodes");
    expect(waveText({ state: "HALTED", wave: 2, waves: 3 })).toBe("wave 2 of 3, halted");
  });

  test.each([
    ["RUNNING", 2, [null, "The waves are not halted.", null]],
    ["AWAITING", 2, [null, "The waves are not halted.", null]],
    ["RUNNING", 3, [null, "The waves are not halted.", "This is the last wave."]],
    ["HALTED", 3, ["The waves are halted.", null, null]],
  ])("requests for waves that would do nothing are disabled: %s in wave %d of 3 [R-1393]", (state, wave, refusals) => {
    const mutations = ["haltWaves", "resumeWaves", "advanceWaves"] as const;
    expect(mutations.map((mutation) => wavesRefusal(mutation, { state, wave, waves: 3 }))).toEqual(refusals);
  });

  test("an estimate that no queue is part of is a lower bound as long as nodes are queued", () => {
    const left = (count: number) => leftText({ etaSeconds: 90, runCounts: [{ state: "QUEUED", count }] });
    expect([left(1), left(0)]).toEqual(["at least 2 min left", "about 2 min left"]);
  });

  const run = {
    state: "WAITING",
    purpose: "WORK",
    failure: null,
    waiting: { description: "The step waits." },
    abortPendingAfterStep: null,
    finishedAt: null,
    currentStep: { title: "Write the image", progressPercent: 43, progressMessage: "block 7" },
  };

  test.each([
    [run, "Write the image, 43 %, block 7 · The step waits."],
    [{ ...run, state: "QUEUED" }, "The step waits."],
    [
      { ...run, waiting: null, abortPendingAfterStep: "write_image", purpose: "CLEAN_UP" },
      "Clean-up · Write the image, 43 %, block 7 · Abort after write_image",
    ],
    [{ ...run, finishedAt: "x", waiting: null, failure: { message: "no space left" } }, "no space left"],
    [
      {
        ...run,
        state: "STOPPED",
        finishedAt: "x",
        waiting: null,
        currentStep: { ...run.currentStep, progressPercent: null, progressMessage: null },
      },
      "Before: Write the image",
    ],
  ])("a run is one line: case %#", (one, line) => {
    expect(runText(one)).toBe(line);
  });

  test("the work that failed explains a node, and not the clean-up that succeeded after it [R-1338]", () => {
    const cleanUp = { purpose: "CLEAN_UP", state: "SUCCEEDED", operation: { kind: "COMMISSION" } };
    const failed = { ...cleanUp, purpose: "WORK", state: "FAILED" };
    expect(explainingRun([cleanUp, failed])).toBe(failed);
    expect([cleanUp, failed].map(runName)).toEqual(["Clean-up after commission", "Commission"]);
    const unfinished = { ...cleanUp, state: "RUNNING" };
    expect(explainingRun([unfinished, failed])).toBe(unfinished);
    expect(explainingRun([failed, cleanUp])).toBe(failed);
    expect(explainingRun([cleanUp])).toBe(cleanUp);
    expect(explainingRun([])).toBeUndefined();
  });

  test("a node whose failure was cleaned up is counted once among the runs", () => {
    expect(nodeCountOf([{ nodeName: "u01" }, { nodeName: "u02" }, { nodeName: "u01" }])).toBe(2);
  });

  test("a restart is offered when an operation has ended before its target", () => {
    const runs = (state: string) => ({ finishedAt: null, runCounts: [{ state, count: 1 }] });
    expect(restartRefusal({ ...runs("FAILED"), finishedAt: "x" })).toBeNull();
    expect(restartRefusal(runs("FAILED"))).toMatch("It has not ended.");
    expect(restartRefusal({ ...runs("SUCCEEDED"), finishedAt: "x" })).toBe("Every node has reached its target.");
  });
});

describe("addresses [R-1176]", () => {
  const KNOWN = { show: ["failed", "active"], run: null } as const;

  test.each([
    ["?show=failed&run=a%20b", { show: "failed", run: "a b" }, []],
    ["?show=bogus", {}, ["show=bogus"]],
    ["?__proto__=1&constructor=2", {}, ["__proto__=1", "constructor=2"]],
    ["?show=javascript:alert(1)&//evil.example", {}, ["show=javascript:alert(1)", "//evil.example="]],
    [`?x=${"y".repeat(10_000)}`, {}, [`x=${"y".repeat(38)}`]],
  ])("%s", (search, values, unknown) => {
    expect(readParameters(search, KNOWN)).toEqual({ values, unknown });
  });

  test("what is written is read again, and empty values are left out", () => {
    const search = writeParameters({ show: "failed", run: 'a&b="c', none: null, empty: "" });
    expect(readParameters(search, KNOWN).values).toEqual({ show: "failed", run: 'a&b="c' });
    expect(writeParameters({ show: undefined })).toBe("");
  });

  test("an invalid part of a path is refused", () => {
    expect([partOfPath("a%20b"), partOfPath("%zz")]).toEqual(["a b", null]);
  });
});
