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
  const members = [
    { name: "a", state: "DEPLOY_WAIT", hostGroup: "worker" },
    { name: "b", state: "DEPLOYING", hostGroup: "worker" },
    { name: "c", state: "ENROLLED", hostGroup: null },
    { name: "d", state: "ACTIVE", hostGroup: "master" },
  ];
  const waiting = (nodeName: string, reason: string, finishedAt: string | null = null) => ({
    nodeName,
    finishedAt,
    waiting: { reason, description: `${nodeName} waits` },
  });

  test("each host group has its states, and what its nodes wait for", () => {
    const runs = [waiting("a", "CAPACITY"), waiting("b", "CAPACITY"), waiting("d", "HOLD", "2026-01-01T00:00:00Z")];
    expect(hostGroupsOf(members, runs)).toEqual([
      { name: "master", counts: [{ state: "ACTIVE", count: 1 }], waits: [] },
      {
        name: "worker",
        counts: [
          { state: "DEPLOY_WAIT", count: 1 },
          { state: "DEPLOYING", count: 1 },
        ],
        waits: [{ reason: "Capacity", example: "a waits", count: 2 }],
      },
      { name: null, counts: [{ state: "ENROLLED", count: 1 }], waits: [] },
    ]);
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
