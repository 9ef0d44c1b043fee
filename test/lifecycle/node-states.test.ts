/** The table of node states, compared with an independent copy. */
import { afterAll, describe, expect, test } from "vitest";
import { edge, follow, isAtRest, kindOf, next } from "../../src/lifecycle/machine.ts";
import {
  NODE_EDGES,
  NODE_EVENTS,
  NODE_STATES,
  NODE_STATE_NAMES,
  SELF_EVENTS,
} from "../../src/lifecycle/node-states.ts";
import type { NodeEvent, NodeState } from "../../src/lifecycle/node-states.ts";
import { testDatabase } from "../support/database.ts";

/** From → `event>TO`; `!` before the event marks an event that a user's verb causes. */
const EXPECTED: Readonly<Record<string, string>> = {
  ENROLLED: "!verify>VERIFYING !retire>DECOMMISSIONED recover>ENROLLED",
  VERIFYING: "done>MANAGEABLE fail>ENROLLED !abort>ENROLLED stop>STOPPED recover>VERIFYING",
  MANAGEABLE: "!inspect>INSPECTING !clean>CLEANING !retire>DECOMMISSIONED recover>MANAGEABLE",
  INSPECTING:
    "wait>INSPECT_WAIT done>MANAGEABLE fail>INSPECT_FAILED !abort>INSPECT_FAILED stop>STOPPED recover>INSPECTING",
  INSPECT_WAIT: "resume>INSPECTING done>MANAGEABLE fail>INSPECT_FAILED !abort>INSPECT_FAILED stop>STOPPED",
  INSPECT_FAILED: "!inspect>INSPECTING !manage>MANAGEABLE recover>INSPECT_FAILED",
  CLEANING:
    "wait>CLEAN_WAIT hold>CLEAN_HOLD done>AVAILABLE manage>MANAGEABLE retire>DECOMMISSIONED fail>CLEAN_FAILED !abort>CLEAN_FAILED stop>STOPPED recover>CLEANING",
  CLEAN_WAIT:
    "resume>CLEANING hold>CLEAN_HOLD done>AVAILABLE manage>MANAGEABLE retire>DECOMMISSIONED fail>CLEAN_FAILED !abort>CLEAN_FAILED stop>STOPPED",
  CLEAN_HOLD: "!unhold>CLEAN_WAIT fail>CLEAN_FAILED !abort>CLEAN_FAILED stop>STOPPED",
  CLEAN_FAILED: "!clean>CLEANING !manage>MANAGEABLE retire>DECOMMISSIONED recover>CLEAN_FAILED",
  AVAILABLE: "!clean>CLEANING !deploy>DEPLOYING !manage>MANAGEABLE !retire>DECOMMISSIONED recover>AVAILABLE",
  DEPLOYING:
    "wait>DEPLOY_WAIT hold>DEPLOY_HOLD done>ACTIVE fail>DEPLOY_FAILED !abort>DEPLOY_FAILED stop>STOPPED recover>DEPLOYING",
  DEPLOY_WAIT: "resume>DEPLOYING hold>DEPLOY_HOLD done>ACTIVE fail>DEPLOY_FAILED !abort>DEPLOY_FAILED stop>STOPPED",
  DEPLOY_HOLD: "!unhold>DEPLOY_WAIT fail>DEPLOY_FAILED !abort>DEPLOY_FAILED stop>STOPPED",
  DEPLOY_FAILED: "!deploy>DEPLOYING !undeploy>UNDEPLOYING recover>DEPLOY_FAILED",
  ACTIVE: "!deploy>DEPLOYING !undeploy>UNDEPLOYING recover>ACTIVE",
  UNDEPLOYING:
    "wait>UNDEPLOY_WAIT clean>CLEANING retire>DECOMMISSIONED fail>UNDEPLOY_FAILED !abort>UNDEPLOY_FAILED stop>STOPPED recover>UNDEPLOYING",
  UNDEPLOY_WAIT:
    "resume>UNDEPLOYING clean>CLEANING retire>DECOMMISSIONED fail>UNDEPLOY_FAILED !abort>UNDEPLOY_FAILED stop>STOPPED",
  UNDEPLOY_FAILED: "!undeploy>UNDEPLOYING retire>DECOMMISSIONED recover>UNDEPLOY_FAILED",
  STOPPED:
    "!verify>VERIFYING !inspect>INSPECTING !clean>CLEANING !deploy>DEPLOYING !undeploy>UNDEPLOYING !manage>MANAGEABLE recover>STOPPED",
  DECOMMISSIONED: "!clean>CLEANING !manage>MANAGEABLE recover>DECOMMISSIONED",
};

/** Events of every state, since work in place runs in any state; the node keeps its state. */
const EVERYWHERE = ["!abort_pending", "!abort_withdrawn", "!power_forced"];

const KINDS: Readonly<Record<string, string>> = {
  stable: "ENROLLED MANAGEABLE AVAILABLE ACTIVE STOPPED DECOMMISSIONED",
  running: "VERIFYING INSPECTING CLEANING DEPLOYING UNDEPLOYING",
  wait: "INSPECT_WAIT CLEAN_WAIT DEPLOY_WAIT UNDEPLOY_WAIT",
  hold: "CLEAN_HOLD DEPLOY_HOLD",
  failed: "INSPECT_FAILED CLEAN_FAILED DEPLOY_FAILED UNDEPLOY_FAILED",
};

interface Expected {
  readonly to: string;
  readonly by: string;
}

function expectedEdges(state: string): Map<string, Expected> {
  const words = [...(EXPECTED[state] ?? "").split(" "), ...EVERYWHERE.map((event) => `${event}>${state}`)];
  return new Map(
    words.map((word) => {
      const [event = "", to = ""] = word.replace("!", "").split(">");
      return [event, { to, by: word.startsWith("!") ? "verb" : "engine" }] as const;
    }),
  );
}

const EVENTS = Object.keys(NODE_EVENTS) as readonly NodeEvent[];
const PAIRS = NODE_STATE_NAMES.flatMap((state) =>
  EVENTS.map((event) => ({ state, event, expected: expectedEdges(state).get(event) })),
);
const LEGAL = PAIRS.filter(
  (pair): pair is { state: NodeState; event: NodeEvent; expected: Expected } => pair.expected !== undefined,
);
const ILLEGAL = PAIRS.filter(({ expected }) => expected === undefined);

describe("table of node states", () => {
  test("table of node states has exactly the expected states", () => {
    expect([...NODE_STATE_NAMES].toSorted()).toEqual(Object.keys(EXPECTED).toSorted());
  });

  test("table of node states has the expected number of edges, without duplicates", () => {
    expect(NODE_EDGES).toHaveLength(LEGAL.length);
    expect(new Set(NODE_EDGES.map(({ from, event }) => `${from} ${event}`)).size).toBe(NODE_EDGES.length);
  });

  test.each(LEGAL)(
    "node state $state leads by $event to $expected.to, caused by $expected.by [R-001]",
    ({ state, event, expected }) => {
      expect(edge(state, event)).toEqual({ from: state, event, ...expected });
      expect(next(state, event)).toBe(expected.to);
    },
  );

  test(`table of node states refuses each of the other ${ILLEGAL.length} pairs of state and event [R-001]`, () => {
    for (const { state, event } of ILLEGAL) {
      expect(edge(state, event), `${state} ${event}`).toBeUndefined();
      expect(() => next(state, event)).toThrow(`no edge "${event}" leads from ${state}`);
    }
  });

  test.each(Object.entries(KINDS))("node states: the %s states are %s [R-005]", (kind, states) => {
    expect(NODE_STATE_NAMES.filter((state) => kindOf(state) === kind).toSorted()).toEqual(states.split(" ").toSorted());
  });

  test("node states and events all have a description", () => {
    for (const { description } of Object.values(NODE_STATES)) expect(description).toMatch(/^[A-Z].+\.$/);
    for (const sentence of Object.values(NODE_EVENTS)) expect(sentence).toMatch(/^[A-Z].+\.$/);
  });

  test("node states: every activity belongs to a phase, and no stable state does [R-005]", () => {
    for (const state of NODE_STATE_NAMES)
      expect(NODE_STATES[state].phase === null, state).toBe(kindOf(state) === "stable");
  });

  test("node states: events that keep the state lead from a state to itself, and no other event does", () => {
    for (const { from, event, to } of NODE_EDGES) expect(from === to, `${from} ${event}`).toBe(SELF_EVENTS.has(event));
  });

  test("node states: no state is a dead end, and each can be reached from ENROLLED", () => {
    const reached = new Set<NodeState>(["ENROLLED"]);
    for (const from of reached) for (const { to } of NODE_EDGES.filter((one) => one.from === from)) reached.add(to);
    expect([...reached].toSorted()).toEqual([...NODE_STATE_NAMES].toSorted());
    for (const state of NODE_STATE_NAMES)
      expect(
        NODE_EDGES.some(({ from, to }) => from === state && to !== state),
        state,
      ).toBe(true);
  });

  test("node states: running work can always be aborted, be stopped and fail [R-005]", () => {
    for (const state of NODE_STATE_NAMES.filter((one) => !isAtRest(one))) {
      expect(isAtRest(next(state, "abort")), state).toBe(true);
      expect(isAtRest(next(state, "fail")), state).toBe(true);
      expect(next(state, "stop"), state).toBe("STOPPED");
    }
  });

  test("node states: a chain of events ends where its edges lead, and stops at an illegal one", () => {
    expect(
      follow("ENROLLED", ["verify", "done", "inspect", "wait", "resume", "done", "clean", "done", "deploy", "done"]),
    ).toBe("ACTIVE");
    expect(() => follow("ENROLLED", ["verify", "deploy"])).toThrow('no edge "deploy" leads from VERIFYING');
  });
});

describe("database table of node states", async () => {
  const database = await testDatabase();
  afterAll(() => database[Symbol.asyncDispose]());

  test("database table of node states holds exactly the edges of the code [R-002]", async () => {
    const rows = await database.sql<
      { edge: string }[]
    >`select from_state || ' ' || event || ' ' || to_state as edge from lifecycle_edges`;
    expect(rows.map(({ edge: one }) => one).toSorted()).toEqual(
      NODE_EDGES.map(({ from, event, to }) => `${from} ${event} ${to}`).toSorted(),
    );
  });
});
