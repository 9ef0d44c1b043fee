/** Clusters of the console: their changes, host groups, variables, and the steps of their operations. */
import { describe, expect, test } from "vitest";
import {
  changedKeys,
  clusterFamilyOf,
  hostGroupsOf,
  stepLines,
  variablesPatch,
} from "../../packages/console/src/words/clusters.ts";
import { operationFilter, transitionFilter } from "../../packages/console/src/words/operation-filters.ts";

describe("variables", () => {
  test("a save sends only what was changed, and null for what was removed [R-1252]", () => {
    const before = { ntp: "a", dns: ["b"], password: "***", gone: 1 };
    const after = { ntp: "c", dns: ["b"], password: "***", added: { x: null } };
    expect(variablesPatch(before, after)).toEqual({ ntp: "c", gone: null, added: { x: null } });
    expect(changedKeys(before, before)).toEqual([]);
  });
});

describe("host groups", () => {
  const member = (name: string, state: string, hostGroup: string | null, powerState = "ON") => ({
    name,
    state,
    hostGroup,
    powerState,
    presence: "PRESENT",
    fault: null,
  });
  const run = (nodeName: string, reason: string | null, { state = "RUNNING", kind = "DEPLOY" } = {}) => ({
    nodeName,
    state,
    finishedAt: state === "FAILED" ? "2026-01-01T00:00:00Z" : null,
    waiting: reason === null ? null : { reason, description: `${nodeName} waits`, hostGroups: [{ group: "masters" }] },
    operation: { kind },
  });
  const NO_SETTINGS = { after: [], tolerates: null, minActive: null, variables: {} };

  test("each host group has its states, and what its nodes wait for", () => {
    const members = [
      member("a", "DEPLOY_WAIT", "worker"),
      member("b", "DEPLOYING", "worker"),
      member("c", "ENROLLED", null),
      member("d", "ACTIVE", "master"),
    ];
    const runs = [run("a", "CAPACITY"), run("b", "CAPACITY"), run("d", "HOLD", { state: "FAILED" })];
    expect(hostGroupsOf(members, runs, [])).toEqual([
      { name: "master", counts: [{ state: "ACTIVE", count: 1 }], rules: [], waits: [] },
      {
        name: "worker",
        counts: [
          { state: "DEPLOY_WAIT", count: 1 },
          { state: "DEPLOYING", count: 1 },
        ],
        rules: [],
        waits: ["2 nodes wait, capacity: a waits"],
      },
      { name: null, counts: [{ state: "ENROLLED", count: 1 }], rules: [], waits: [] },
    ]);
  });

  test("a group shows what it waits for, with the nodes that are needed and active now [R-1284]", () => {
    const members = [
      member("m1", "ACTIVE", "masters"),
      member("m2", "ACTIVE", "masters"),
      member("m3", "DEPLOY_FAILED", "masters"),
      member("m4", "ACTIVE", "masters", "OFF"),
      member("w1", "AVAILABLE", "workers"),
    ];
    const settings = [
      { ...NO_SETTINGS, name: "masters", tolerates: { percent: 50 }, minActive: { count: 1 } },
      { ...NO_SETTINGS, name: "workers", after: [{ group: "masters", share: { percent: 60 } }] },
      {
        ...NO_SETTINGS,
        name: "edge",
        after: [
          { group: "masters", share: null },
          { group: "none", share: null },
        ],
      },
    ];
    // An active node that is deployed again does not count, and one whose power is changed does.
    const runs = [
      run("m1", null),
      run("m2", null, { kind: "POWER" }),
      run("m3", null, { state: "FAILED" }),
      run("w1", "GROUP"),
    ];
    const [masters, workers, edge] = hostGroupsOf(members, runs, settings);
    expect(masters?.rules).toEqual(["Tolerates 2 failures, 1 so far.", "2 in service, at least 1 to stay."]);
    expect(workers?.rules).toEqual(["After masters: 2 of 3 needed nodes active, 1 missing."]);
    expect(workers?.waits).toEqual(["1 node waits for masters."]);
    expect(edge?.rules).toEqual([
      "After masters: 2 of 4 needed nodes active, 2 missing.",
      "After none: 0 of 1 needed nodes active, 1 missing.",
    ]);
    const [, begun] = hostGroupsOf(members, [], settings);
    expect(begun?.rules).toEqual(["After masters: 3 of 3 needed nodes active, it may begin."]);
  });
});

describe("history", () => {
  const step = (index: number, name: string, state: string, startedAt: string | null, finishedAt: string | null) => ({
    index,
    name,
    title: `Do ${name}`,
    interface: "DEPLOY",
    state,
    startedAt,
    finishedAt,
  });

  test("the steps of all nodes are lines with start, duration and result", () => {
    const runs = [
      {
        steps: [
          step(0, "prepare", "SUCCEEDED", "2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z"),
          step(1, "write", "RUNNING", "2026-01-01T00:00:20Z", null),
        ],
      },
      {
        steps: [
          step(0, "prepare", "FAILED", "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"),
          step(1, "write", "PENDING", null, null),
        ],
      },
    ];
    expect(stepLines(runs)).toEqual([
      {
        name: "deploy.prepare",
        title: "Do prepare",
        startedAt: "2026-01-01T00:00:00Z",
        seconds: 20,
        counts: [
          { state: "SUCCEEDED", count: 1 },
          { state: "FAILED", count: 1 },
        ],
      },
      {
        name: "deploy.write",
        title: "Do write",
        startedAt: "2026-01-01T00:00:20Z",
        seconds: null,
        counts: [
          { state: "RUNNING", count: 1 },
          { state: "PENDING", count: 1 },
        ],
      },
    ]);
    expect(stepLines([])).toEqual([]);
  });

  test("a step that is the third of one node and the first of another is one line, and one that comes twice is two", () => {
    const done = (index: number, name: string) => step(index, name, "SUCCEEDED", null, null);
    const runs = [
      { steps: ["write", "boot"].map((name, index) => done(index, name)) },
      { steps: ["erase", "boot", "write", "boot"].map((name, index) => done(index, name)) },
      { steps: ["boot", "register"].map((name, index) => done(index, name)) },
    ];
    expect(stepLines(runs).map(({ name, counts }) => [name, counts[0]?.count])).toEqual([
      ["deploy.erase", 1],
      ["deploy.boot", 3],
      ["deploy.register", 1],
      ["deploy.write", 2],
      ["deploy.boot", 1],
    ]);
  });

  test("a state of a cluster has a family, a new one too", () => {
    expect(["OPERATIONAL", "ERROR", "STOPPING", "NEW", "BOGUS"].map(clusterFamilyOf)).toEqual([
      "active",
      "failed",
      "working",
      "rest",
      "rest",
    ]);
  });

  test("parameters of an address are filters of the API; empty ones are none", () => {
    const now = new Date("2026-01-02T00:00:00Z");
    const chosen = { kind: "DEPLOY", state: "FAILED", by: " anna ", period: "day", text: "disk" };
    expect(operationFilter(chosen, now)).toEqual({
      kinds: ["DEPLOY"],
      states: ["FAILED"],
      requestedBy: ["anna"],
      createdSince: "2026-01-01T00:00:00.000Z",
      text: "disk",
    });
    expect(transitionFilter({ ...chosen, period: "bogus" }, now)).toEqual({
      kinds: ["DEPLOY"],
      actors: ["anna"],
      text: "disk",
    });
    expect([operationFilter({}, now), transitionFilter({ by: " ", text: "" }, now)]).toEqual([{}, {}]);
  });
});
