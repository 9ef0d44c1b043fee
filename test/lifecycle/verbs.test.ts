/** Routes of the verbs: the phases of each verb from each state, and where it ends. */
import { describe, expect, test } from "vitest";
import { follow, isAtRest } from "../../src/lifecycle/machine.ts";
import { NODE_STATE_NAMES } from "../../src/lifecycle/node-states.ts";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import {
  NODE_VERBS,
  OPERATION_KINDS,
  allowedStates,
  cleanUpRoute,
  resumeRoute,
  route,
} from "../../src/lifecycle/verbs.ts";
import type { NodeVerb, OperationKind, Route, RouteOptions } from "../../src/lifecycle/verbs.ts";
import { KIND_OF, endOf as endOfVerb, phasesOf } from "../durability/expectations.ts";
import type { Options } from "../durability/expectations.ts";

const KINDS = Object.keys(OPERATION_KINDS) as OperationKind[];
const OPTIONS: readonly RouteOptions[] = [undefined, "AVAILABLE", "ACTIVE"].flatMap((until) =>
  [false, true].flatMap((inspectsWithoutReboot) =>
    [false, true].flatMap((manualCleaning) =>
      [false, true].map((retired) => ({
        ...(until && { until: until as "AVAILABLE" | "ACTIVE" }),
        inspectsWithoutReboot,
        manualCleaning,
        retired,
      })),
    ),
  ),
);

/** The state to which a route's events lead; throws at the first illegal event. */
function endOf(state: NodeState, { legs, finish }: Pick<Route, "legs" | "finish">): NodeState {
  return follow(state, [...legs.flatMap(({ enter }) => enter), ...finish]);
}

/** A redeployment without `reinstall` is refused by its plan, not by its route. */
const askedFor = (verb: NodeVerb): Options => (verb === "REDEPLOY" ? { reinstall: true } : {});

/** `phases > target` as the rules have it; "refused" in the other states. */
function expectedOf(verb: NodeVerb, state: NodeState): string {
  const phases = phasesOf(verb, state, askedFor(verb));
  if (phases === null) return "refused";
  return `${phases.join(" ")} > ${endOfVerb(verb, { state, isRetired: false }, askedFor(verb))}`.trim();
}

test("the rules of the random tests name the same verbs and mutations", () => {
  expect(KIND_OF).toEqual(Object.fromEntries(NODE_VERBS.map((verb) => [OPERATION_KINDS[verb].mutation, verb])));
});

describe("route", () => {
  test.each(
    NODE_VERBS.flatMap((verb) => NODE_STATE_NAMES.map((state) => ({ verb, state, expected: expectedOf(verb, state) }))),
  )("route of $verb from $state: $expected [R-014]", ({ verb, state, expected }) => {
    const found = route(verb, state, { inspectsWithoutReboot: true });
    const text = found ? `${found.legs.map(({ phase }) => phase).join(" ")} > ${found.target}`.trim() : "refused";
    expect(text).toBe(expected);
  });

  test.each(NODE_VERBS)(
    "route of %s is a chain of legal edges that ends in its target, whatever the options [R-014]",
    (verb) => {
      let routes = 0;
      for (const options of OPTIONS) {
        for (const state of NODE_STATE_NAMES) {
          const found = route(verb, state, options);
          if (!found) continue;
          routes += 1;
          expect(endOf(state, found), `${verb} from ${state} ${JSON.stringify(options)}`).toBe(found.target);
          expect(isAtRest(found.target)).toBe(true);
          expect(isAtRest(state), `${verb} begins in ${state}, where work is going on`).toBe(true);
        }
      }
      expect(routes).toBeGreaterThan(0);
    },
  );

  test("route of an inspection stays in place for AVAILABLE and ACTIVE nodes if the driver needs no reboot [R-019]", () => {
    for (const state of ["AVAILABLE", "ACTIVE"] as const) {
      expect(route("INSPECT", state, { inspectsWithoutReboot: true })).toMatchObject({
        legs: [{ phase: "inspect", enter: [] }],
        finish: [],
        target: state,
      });
      expect(route("INSPECT", state, { inspectsWithoutReboot: false })).toBeNull();
    }
  });

  test("route of a commission until AVAILABLE omits the deployment, and undeploys a failed one", () => {
    expect(route("COMMISSION", "ENROLLED", { until: "AVAILABLE" })).toMatchObject({
      legs: [{ phase: "verify" }, { phase: "inspect" }, { phase: "clean" }],
      target: "AVAILABLE",
    });
    expect(route("COMMISSION", "AVAILABLE", { until: "AVAILABLE" })).toMatchObject({ legs: [], target: "AVAILABLE" });
    expect(route("COMMISSION", "DEPLOY_FAILED", { until: "AVAILABLE" })).toMatchObject({
      legs: [{ phase: "undeploy" }, { phase: "clean" }],
      target: "AVAILABLE",
    });
  });

  test("route of a deployment of an ACTIVE node requires reinstall", () => {
    expect(route("DEPLOY", "ACTIVE", { reinstall: true })).toMatchObject({ legs: [{ phase: "deploy" }] });
    expect(route("DEPLOY", "ACTIVE", { reinstall: false })).toBeNull();
  });

  test.each(["STOPPED", "DEPLOY_FAILED"] as const)(
    "route of a commission of a %s node keeps its installed system [R-160]",
    (state) => {
      expect(route("COMMISSION", state, { keepsSystem: true })).toMatchObject({
        legs: [{ phase: "deploy" }],
        target: "ACTIVE",
      });
    },
  );

  test("route of an update passes through the states of an undeployment and a deployment", () => {
    expect(route("REDEPLOY", "ACTIVE")?.legs.map(({ enter }) => enter)).toEqual([
      ["undeploy"],
      ["clean"],
      ["done", "deploy"],
    ]);
  });

  test("route of a node of a cluster is that of a commission, or a deployment of an ACTIVE node [R-1045]", () => {
    expect(route("APPLY", "ACTIVE")).toEqual(route("DEPLOY", "ACTIVE", { reinstall: true }));
    for (const state of NODE_STATE_NAMES.filter((one) => one !== "ACTIVE" && one !== "DECOMMISSIONED"))
      expect(route("APPLY", state, { keepsSystem: true }), state).toEqual(
        route("COMMISSION", state, { keepsSystem: true }),
      );
    expect(route("APPLY", "DECOMMISSIONED")).toBeNull();
  });

  test("route of a discovery does not exist: a discovery takes addresses", () => {
    for (const state of NODE_STATE_NAMES) expect(route("DISCOVER", state), state).toBeNull();
    expect(NODE_VERBS).toEqual(KINDS.filter((kind) => kind !== "APPLY" && kind !== "DISCOVER"));
  });

  test("route of an undeployment leads a retired node to MANAGEABLE, and no other node", () => {
    expect(route("UNDEPLOY", "ACTIVE", { retired: true })).toMatchObject({ finish: ["manage"], target: "MANAGEABLE" });
    expect(route("UNDEPLOY", "ACTIVE", { retired: false })).toMatchObject({ finish: ["done"], target: "AVAILABLE" });
  });

  test("route of chosen clean steps leads a failed node to MANAGEABLE", () => {
    expect(route("CLEAN", "CLEAN_FAILED", { manualCleaning: true })?.target).toBe("MANAGEABLE");
  });

  test("route of a decommission continues after failures, and no other does [R-028]", () => {
    for (const verb of KINDS)
      expect(route(verb, "AVAILABLE", { inspectsWithoutReboot: true })?.bestEffort ?? false, verb).toBe(
        verb === "DECOMMISSION",
      );
  });
});

test("refusal INVALID_STATE names exactly the states in which the verb is allowed [R-009]", () => {
  for (const verb of NODE_VERBS)
    expect(allowedStates(verb, { inspectsWithoutReboot: true }), verb).toEqual(
      NODE_STATE_NAMES.filter((state) => expectedOf(verb, state) !== "refused"),
    );
  expect(allowedStates("INSPECT")).toEqual(["MANAGEABLE", "INSPECT_FAILED"]);
});

/** State → phases of its clean-up; states that are missing need no clean-up, or have none. */
const CLEAN_UPS: Readonly<Record<string, string>> = {
  MANAGEABLE: "clean",
  INSPECT_FAILED: "clean",
  CLEAN_FAILED: "clean",
  ACTIVE: "undeploy clean",
  STOPPED: "undeploy clean",
  DEPLOY_FAILED: "undeploy clean",
  UNDEPLOY_FAILED: "undeploy clean",
};

test.each(NODE_STATE_NAMES.filter(isAtRest).map((state) => ({ state, phases: CLEAN_UPS[state] ?? "nothing" })))(
  "route of the clean-up of a node that is $state: $phases",
  ({ state, phases }) => {
    const found = cleanUpRoute(state);
    expect(found ? found.legs.map(({ phase }) => phase).join(" ") : "nothing").toBe(phases);
    expect(found ? endOf(state, found) : "AVAILABLE").toBe("AVAILABLE");
  },
);

describe("route of a restart", () => {
  test("route of a restart from any state at any leg is a chain of legal edges", () => {
    for (const verb of KINDS) {
      for (const first of NODE_STATE_NAMES) {
        const earlier = route(verb, first, { inspectsWithoutReboot: true });
        if (!earlier) continue;
        for (const now of NODE_STATE_NAMES.filter(isAtRest)) {
          for (let leg = 0; leg <= earlier.legs.length; leg += 1) {
            const resumed = resumeRoute(earlier, now, leg);
            if (!resumed) continue;
            expect(endOf(now, resumed.route), `${verb} begun ${first}, taken up ${now} at leg ${leg}`).toBe(
              resumed.route.target,
            );
          }
        }
      }
    }
  });

  test.each([
    { now: "STOPPED", leg: 0, phases: "verify inspect clean deploy" },
    { now: "STOPPED", leg: 2, phases: "clean deploy" },
    { now: "STOPPED", leg: 3, phases: "deploy" },
    { now: "DEPLOY_FAILED", leg: 0, phases: "deploy" },
    { now: "CLEAN_FAILED", leg: 0, phases: "verify inspect clean deploy" },
    { now: "INSPECT_FAILED", leg: 1, phases: "inspect clean deploy" },
    { now: "CLEAN_FAILED", leg: 3, phases: "clean deploy" },
    { now: "ENROLLED", leg: 1, phases: "verify inspect clean deploy" },
  ] as const)(
    "route of a restart of a commission that left the node $now, from leg $leg: $phases",
    ({ now, leg, phases }) => {
      const earlier = route("COMMISSION", "ENROLLED");
      const resumed = earlier && resumeRoute(earlier, now, leg);
      expect(resumed?.route.legs.map(({ phase }) => phase).join(" ")).toBe(phases);
      expect(resumed?.route.target).toBe("ACTIVE");
    },
  );

  test("route of a restart of work in place has the phases from the first open one", () => {
    const legs = (["verify", "inspect"] as const).map((phase) => ({ phase, enter: [] }));
    const earlier = { legs, finish: [], bestEffort: false };
    expect(resumeRoute(earlier, "ACTIVE", 0)).toMatchObject({ route: { legs }, firstLeg: 0 });
    expect(resumeRoute(earlier, "ACTIVE", 1)).toMatchObject({ route: { legs: legs.slice(1) }, firstLeg: 1 });
    expect(resumeRoute(earlier, "CLEANING", 1)).toBeNull();
  });

  test("route of a restart of work without phases is the same again, if the node is in its first state", () => {
    const retired = route("DECOMMISSION", "AVAILABLE");
    expect(retired && resumeRoute(retired, "AVAILABLE", 0)?.route).toEqual(retired);
    expect(retired && resumeRoute(retired, "ACTIVE", 0)).toBeNull();
  });

  test.each([
    { now: "UNDEPLOY_FAILED", phases: "undeploy clean deploy" },
    { now: "CLEAN_FAILED", phases: "clean deploy" },
    { now: "DEPLOY_FAILED", phases: "undeploy clean deploy" },
    { now: "STOPPED", phases: "undeploy clean deploy" },
    { now: "AVAILABLE", phases: "clean deploy" },
  ] as const)("route of a restart of an update that left the node $now: $phases", ({ now, phases }) => {
    const earlier = route("REDEPLOY", "ACTIVE");
    const resumed = earlier && resumeRoute(earlier, now, 0);
    expect(resumed?.route.legs.map(({ phase }) => phase).join(" ")).toBe(phases);
    expect(resumed?.route.target).toBe("ACTIVE");
  });

  test("route of a restart does not exist if the node can no longer enter the remaining phases", () => {
    const deployed = route("DEPLOY", "AVAILABLE");
    expect(deployed && resumeRoute(deployed, "ENROLLED", 0)).toBeNull();
  });
});
