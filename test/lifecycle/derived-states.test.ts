/** Derived states: of a cluster from its nodes, of an operation from its runs. */
import { describe, expect, test } from "vitest";
import { failurePolicyOf } from "../../src/engine/admission/request-terms.ts";
import { CLUSTER_RULES, CLUSTER_STATES, clusterState, isLocked } from "../../src/lifecycle/cluster-state.ts";
import type { ClusterFacts, Stage } from "../../src/lifecycle/cluster-state.ts";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { FAILURE_POLICIES, OPERATION_STATES, isFinalOperation, outcome } from "../../src/lifecycle/operation-states.ts";
import type { OperationState, RunCounts } from "../../src/lifecycle/operation-states.ts";
import { OPERATION_KINDS } from "../../src/lifecycle/verbs.ts";
import type { OperationKind } from "../../src/lifecycle/verbs.ts";

const node = (state: NodeState, stage: Stage = "NONE") => ({ state, stage });
const ACTIVE = node("ACTIVE", "DEPLOYED");
const deploying = { kind: "DEPLOY", stopping: false } as const;
const stopping = { kind: "DEPLOY", stopping: true } as const;
const removing = { kind: "DECOMMISSION", stopping: false } as const;

describe("state of a cluster", () => {
  test.each<{
    what: string;
    nodes: ClusterFacts["nodes"];
    work?: ClusterFacts["work"];
    is: keyof typeof CLUSTER_STATES;
  }>([
    { what: "no nodes", nodes: [], is: "NEW" },
    {
      what: "no node past AVAILABLE",
      nodes: [node("ENROLLED"), node("MANAGEABLE"), node("AVAILABLE"), node("DECOMMISSIONED")],
      is: "NEW",
    },
    { what: "all nodes ACTIVE", nodes: [ACTIVE, ACTIVE], is: "OPERATIONAL" },
    { what: "some nodes ACTIVE", nodes: [ACTIVE, node("AVAILABLE")], is: "PARTIALLY_DEPLOYED" },
    { what: "some nodes ACTIVE, the others failed", nodes: [ACTIVE, node("DEPLOY_FAILED")], is: "PARTIALLY_DEPLOYED" },
    {
      what: "a stopped node with an installed system",
      nodes: [node("STOPPED", "PROVISIONED"), node("AVAILABLE")],
      is: "PARTIALLY_DEPLOYED",
    },
    {
      what: "a node stopped before its system was installed",
      nodes: [node("STOPPED"), node("DEPLOY_FAILED")],
      is: "STOPPED",
    },
    { what: "a failed node", nodes: [node("CLEAN_FAILED"), node("AVAILABLE")], is: "ERROR" },
    { what: "running work", nodes: [ACTIVE], work: [deploying], is: "DEPLOYING" },
    { what: "running work and a failed node", nodes: [node("DEPLOY_FAILED")], work: [deploying], is: "DEPLOYING" },
    { what: "stopping work", nodes: [ACTIVE], work: [deploying, stopping], is: "STOPPING" },
    { what: "a stopping removal", nodes: [ACTIVE], work: [{ ...removing, stopping: true }], is: "REMOVING" },
    {
      what: "nodes being deployed and others being decommissioned",
      nodes: [ACTIVE],
      work: [removing, deploying],
      is: "DEPLOYING",
    },
    {
      what: "nodes being decommissioned, and stopping work on others",
      nodes: [ACTIVE],
      work: [stopping, removing],
      is: "STOPPING",
    },
    {
      what: "a running undeployment",
      nodes: [ACTIVE],
      work: [{ kind: "UNDEPLOY", stopping: false }],
      is: "REMOVING",
    },
  ])(
    "cluster with $what is $is [R-108, R-109, R-110, R-111, R-112, R-113, R-114, R-115]",
    ({ nodes, work = [], is }) => {
      expect(clusterState({ nodes, work })).toBe(is);
    },
  );

  test("cluster state: every row of the table decides for some cluster, and every state has a row [R-108]", () => {
    const works: ClusterFacts["work"][] = [[], [deploying], [stopping], [removing]];
    const members: ClusterFacts["nodes"][] = [
      [],
      [ACTIVE],
      [ACTIVE, node("AVAILABLE")],
      [node("STOPPED")],
      [node("CLEAN_FAILED")],
      [node("CLEANING")],
    ];
    const deciding = works.flatMap((work) =>
      members.map((nodes) => CLUSTER_RULES.findIndex(({ holds }) => holds({ nodes, work }))),
    );
    expect([...new Set(deciding)].toSorted((a, b) => a - b)).toEqual(CLUSTER_RULES.map((_, index) => index));
    expect(new Set(CLUSTER_RULES.map(({ state }) => state))).toEqual(new Set(Object.keys(CLUSTER_STATES)));
  });

  test("cluster state: running and stopping work locks the settings, every other state allows updates [R-107]", () => {
    const locked = (Object.keys(CLUSTER_STATES) as (keyof typeof CLUSTER_STATES)[]).filter(isLocked);
    expect(locked.toSorted()).toEqual(["DEPLOYING", "STOPPING"]);
  });
});

const counts = (change: Partial<RunCounts>): RunCounts => ({
  succeeded: 0,
  succeededWithErrors: 0,
  failed: 0,
  aborted: 0,
  stopped: 0,
  ...change,
});

describe("state of an operation", () => {
  test.each<{ what: string; of: RunCounts; interrupt?: "STOP" | "ABORT"; hasFailed?: boolean; is: OperationState }>([
    { what: "every run succeeded", of: counts({ succeeded: 3 }), is: "SUCCEEDED" },
    { what: "no run exists", of: counts({}), is: "SUCCEEDED" },
    {
      what: "every run succeeded, one with errors,",
      of: counts({ succeeded: 3, succeededWithErrors: 1 }),
      is: "SUCCEEDED_WITH_ERRORS",
    },
    { what: "some runs failed", of: counts({ succeeded: 2, failed: 1 }), is: "PARTIALLY_SUCCEEDED" },
    { what: "most runs failed", of: counts({ succeeded: 1, failed: 2 }), is: "PARTIALLY_SUCCEEDED" },
    {
      what: "some runs were aborted node by node",
      of: counts({ succeeded: 2, aborted: 1 }),
      is: "PARTIALLY_SUCCEEDED",
    },
    { what: "every run failed", of: counts({ failed: 3 }), is: "FAILED" },
    { what: "every run was aborted node by node", of: counts({ aborted: 3 }), is: "ABORTED" },
    { what: "some runs failed and the others were aborted", of: counts({ failed: 1, aborted: 2 }), is: "FAILED" },
    { what: "a stop left work", of: counts({ succeeded: 1, failed: 1, stopped: 1 }), interrupt: "STOP", is: "STOPPED" },
    { what: "a stop came when all had succeeded", of: counts({ succeeded: 3 }), interrupt: "STOP", is: "SUCCEEDED" },
    { what: "some were stopped node by node", of: counts({ succeeded: 2, stopped: 1 }), is: "STOPPED" },
    { what: "an abort ended some", of: counts({ succeeded: 2, aborted: 1 }), interrupt: "ABORT", is: "ABORTED" },
    { what: "an abort came when all had succeeded", of: counts({ succeeded: 3 }), interrupt: "ABORT", is: "SUCCEEDED" },
    {
      what: "every node was cleaned up",
      of: counts({ succeeded: 2, failed: 1 }),
      interrupt: "STOP",
      hasFailed: true,
      is: "FAILED",
    },
  ])("operation of which $what is $is [R-094]", ({ of, interrupt = null, hasFailed = false, is }) => {
    expect(outcome(of, { interrupt, hasFailed })).toBe(is);
  });

  test("operation outcome is always final", () => {
    for (const succeeded of [0, 1])
      for (const failed of [0, 1])
        for (const aborted of [0, 1])
          for (const stopped of [0, 1])
            for (const interrupt of [null, "STOP", "ABORT"] as const) {
              expect(
                isFinalOperation(
                  outcome(counts({ succeeded, failed, aborted, stopped }), { interrupt, hasFailed: false }),
                ),
              ).toBe(true);
            }
  });
});

test("operation state of unfinished operations is queued, running, stopping or aborting", () => {
  expect((Object.keys(OPERATION_STATES) as OperationState[]).filter((state) => !isFinalOperation(state))).toEqual([
    "QUEUED",
    "RUNNING",
    "STOPPING",
    "ABORTING",
  ]);
});

test("operation of kind COMMISSION is the only one that cleans up after itself by default, or as the site says [R-025]", () => {
  for (const kind of Object.keys(OPERATION_KINDS) as OperationKind[]) {
    expect(failurePolicyOf({}, kind, {}), kind).toBe(kind === "COMMISSION" ? "CLEAN_UP_ALL" : "LEAVE");
    expect(failurePolicyOf({}, kind, { commissionOnFailure: "CLEAN_UP_FAILED" }), kind).toBe(
      kind === "COMMISSION" ? "CLEAN_UP_FAILED" : "LEAVE",
    );
  }
  expect(Object.keys(FAILURE_POLICIES)).toEqual(["CLEAN_UP_ALL", "CLEAN_UP_FAILED", "LEAVE"]);
});
