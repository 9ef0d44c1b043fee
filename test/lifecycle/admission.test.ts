/** Why a verb may not start on a node: each reason by its code, and which one a node with several is told. */
import { describe, expect, test } from "vitest";
import { judge } from "../../src/lifecycle/admission.ts";
import type { NodeFacts, VerbRequest } from "../../src/lifecycle/admission.ts";
import { follow } from "../../src/lifecycle/machine.ts";
import { NODE_STATE_NAMES } from "../../src/lifecycle/node-states.ts";
import { NODE_VERBS, OPERATION_KINDS, route } from "../../src/lifecycle/verbs.ts";
import type { OperationKind } from "../../src/lifecycle/verbs.ts";

const AVAILABLE: NodeFacts = {
  id: "1",
  name: "rack3-u12",
  state: "AVAILABLE",
  inMaintenance: false,
  isProtected: false,
  isRetired: false,
  hasDisappeared: false,
  busyWith: null,
  driverProblem: null,
  can: { inspect: true, clean: true, deploy: true },
  inspectsWithoutReboot: false,
  driver: "ipmi",
};

const asked = (verb: OperationKind, more: Partial<VerbRequest> = {}): VerbRequest => ({
  verb,
  options: {},
  force: false,
  ...more,
});

const BUSY = { operationId: "7f2", kind: "DEPLOY" } as const;
const CANNOT = { inspect: false, clean: false, deploy: false };

describe("a verb is refused", () => {
  test.each<{ why: string; node: Partial<NodeFacts>; request: VerbRequest; code: string; says: string }>([
    {
      why: "while other work is unfinished",
      node: { busyWith: BUSY },
      request: asked("CLEAN"),
      code: "BUSY",
      says: "busy with DEPLOY operation 7f2; wait for it, stop it or abort it",
    },
    {
      why: "in maintenance",
      node: { inMaintenance: true },
      request: asked("DEPLOY"),
      code: "IN_MAINTENANCE",
      says: "clear the mark with setMaintenance",
    },
    {
      why: "on a protected node that it would destroy",
      node: { isProtected: true },
      request: asked("DEPLOY"),
      code: "PROTECTED",
      says: "lift the protection with updateNode",
    },
    {
      why: "on a protected node that it would switch off",
      node: { isProtected: true },
      request: asked("POWER", { options: { powerAction: "SOFT_OFF" } }),
      code: "PROTECTED",
      says: "lift the protection with updateNode",
    },
    {
      why: "on a retired node that it would put in service",
      node: { isRetired: true },
      request: asked("DEPLOY"),
      code: "PROTECTED",
      says: "is retired; take the mark away with setRetired first, or decommission the node",
    },
    {
      why: "to decommission what has disappeared",
      node: { hasDisappeared: true },
      request: asked("DECOMMISSION"),
      code: "INVALID_STATE",
      says: "force: true",
    },
    {
      why: "without its driver",
      node: { driverProblem: 'driver "ipmi" is not loaded.' },
      request: asked("POWER"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: 'driver "ipmi" is not loaded',
    },
    {
      why: "in the wrong state",
      node: { state: "ENROLLED" },
      request: asked("DEPLOY"),
      code: "INVALID_STATE",
      says: "is ENROLLED; DEPLOY is allowed from AVAILABLE, ACTIVE, DEPLOY_FAILED",
    },
    {
      why: "where the driver cannot inspect",
      node: { state: "MANAGEABLE", can: CANNOT },
      request: asked("INSPECT"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "driver ipmi cannot inspect; take that interface from another driver (interfaces: [{ kinds: [INSPECT]",
    },
    {
      why: "where the driver cannot clean",
      node: { can: CANNOT },
      request: asked("CLEAN"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "cannot clean",
    },
    {
      why: "where the driver cannot deploy",
      node: { can: CANNOT },
      request: asked("DEPLOY"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "cannot deploy",
    },
    {
      why: "where the driver cannot undo a deployment",
      node: { state: "ACTIVE", can: CANNOT },
      request: asked("UNDEPLOY"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "cannot deploy",
    },
  ])("$why: $code [R-042]", ({ node, request, code, says }) => {
    const verdict = judge({ ...AVAILABLE, ...node }, request);
    expect(verdict).toMatchObject({
      admitted: false,
      refusal: { code, nodeId: "1", message: expect.stringContaining(says) },
    });
    expect(verdict).toMatchObject({ refusal: { message: expect.stringContaining("rack3-u12") } });
  });

  test("with the states in which it is allowed", () => {
    expect(judge({ ...AVAILABLE, state: "ENROLLED" }, asked("DEPLOY"))).toMatchObject({
      refusal: { allowedStates: ["AVAILABLE", "ACTIVE", "DEPLOY_FAILED"] },
    });
  });

  test("with the operation in the way", () => {
    expect(judge({ ...AVAILABLE, busyWith: BUSY }, asked("DEPLOY"))).toMatchObject({ refusal: { operationId: "7f2" } });
  });

  test("as busy before anything else, because that passes by itself", () => {
    const troubled: NodeFacts = {
      ...AVAILABLE,
      busyWith: BUSY,
      inMaintenance: true,
      isProtected: true,
      state: "ENROLLED",
      driverProblem: "no driver.",
    };
    expect(judge(troubled, asked("DEPLOY"))).toMatchObject({ refusal: { code: "BUSY" } });
    expect(judge({ ...troubled, busyWith: null }, asked("DEPLOY"))).toMatchObject({
      refusal: { code: "IN_MAINTENANCE" },
    });
    expect(judge({ ...troubled, busyWith: null, inMaintenance: false }, asked("DEPLOY"))).toMatchObject({
      refusal: { code: "PROTECTED" },
    });
    expect(
      judge({ ...troubled, busyWith: null, inMaintenance: false, isProtected: false }, asked("DEPLOY")),
    ).toMatchObject({ refusal: { code: "UNSUPPORTED_BY_DRIVER" } });
  });
});

describe("a restart is judged", () => {
  const clean = route("CLEAN", "AVAILABLE");

  test("by the way that is left, not by the whole of what its verb would do", () => {
    const cleaner: NodeFacts = { ...AVAILABLE, can: { ...CANNOT, clean: true } };
    expect(judge(cleaner, asked("COMMISSION", { resumed: clean }))).toEqual({ admitted: true, route: clean });
    expect(judge({ ...cleaner, can: CANNOT }, asked("COMMISSION", { resumed: clean }))).toMatchObject({
      refusal: { code: "UNSUPPORTED_BY_DRIVER" },
    });
  });

  test("of a commission by what is missing, where a failed clean-up has left the node beside the earlier way", () => {
    const whole: NodeFacts = { ...AVAILABLE, state: "CLEAN_FAILED" };
    expect(judge(whole, asked("COMMISSION", { resumed: null }))).toEqual({
      admitted: true,
      route: route("COMMISSION", "CLEAN_FAILED"),
    });
    expect(judge({ ...whole, state: "ACTIVE" }, asked("COMMISSION", { resumed: null }))).toMatchObject({
      refusal: { code: "NOTHING_TO_RESTART" },
    });
  });

  test("NOTHING_TO_RESTART where no way is left, and by everything else as ever", () => {
    expect(judge(AVAILABLE, asked("DEPLOY", { resumed: null }))).toMatchObject({
      refusal: { code: "NOTHING_TO_RESTART", nodeId: "1" },
    });
    expect(judge({ ...AVAILABLE, busyWith: BUSY }, asked("DEPLOY", { resumed: clean }))).toMatchObject({
      refusal: { code: "BUSY" },
    });
    expect(judge({ ...AVAILABLE, inMaintenance: true }, asked("DEPLOY", { resumed: clean }))).toMatchObject({
      refusal: { code: "IN_MAINTENANCE" },
    });
  });
});

describe("a retired node", () => {
  test("never becomes available, whatever is admitted on it, restarts included", () => {
    const retired: NodeFacts = { ...AVAILABLE, isRetired: true };
    for (const state of NODE_STATE_NAMES.filter((name) => name !== "AVAILABLE")) {
      for (const verb of NODE_VERBS) {
        for (const resumed of [undefined, route(verb, state)]) {
          const verdict = judge({ ...retired, state }, asked(verb, resumed === undefined ? {} : { resumed }));
          if (verdict.admitted) expect(verdict.route.target, `${verb} from ${state}`).not.toBe("AVAILABLE");
        }
      }
    }
  });

  test("goes back to its operator after a tear-down, along edges that there are", () => {
    const verdict = judge(
      { ...AVAILABLE, isRetired: true, state: "ACTIVE" },
      asked("UNDEPLOY", { resumed: route("UNDEPLOY", "ACTIVE") }),
    );
    expect(verdict).toMatchObject({ admitted: true, route: { target: "MANAGEABLE", finish: ["manage"] } });
    const clean = judge({ ...AVAILABLE, isRetired: true, state: "CLEAN_FAILED" }, asked("CLEAN"));
    expect(clean.admitted && follow("CLEANING", clean.route.finish)).toBe("MANAGEABLE");
  });

  test("that is still AVAILABLE stays so when it is cleaned, as every node ends where it began", () => {
    expect(judge({ ...AVAILABLE, isRetired: true }, asked("CLEAN"))).toMatchObject({
      admitted: true,
      route: { target: "AVAILABLE" },
    });
  });
});

describe("a verb is admitted", () => {
  test("in exactly the states that have a route, with that route [R-009]", () => {
    for (const verb of Object.keys(OPERATION_KINDS) as OperationKind[]) {
      for (const state of NODE_STATE_NAMES) {
        const found = route(verb, state, { inspectsWithoutReboot: false });
        const verdict = judge({ ...AVAILABLE, state }, asked(verb));
        expect(verdict.admitted ? verdict.route : null, `${verb} ${state}`).toEqual(found);
      }
    }
  });

  test.each(["INSPECT", "MANAGE"] as const)("on a protected node when it is %s, which destroys nothing", (verb) => {
    expect(judge({ ...AVAILABLE, isProtected: true, inspectsWithoutReboot: true }, asked(verb)).admitted).toBe(true);
  });

  test("on a protected node to switch it on, and in no other way to change its power", () => {
    const admitted = (["ON", "OFF", "SOFT_OFF", "REBOOT"] as const).filter(
      (powerAction) =>
        judge({ ...AVAILABLE, isProtected: true }, asked("POWER", { options: { powerAction } })).admitted,
    );
    expect(admitted).toEqual(["ON"]);
    expect(judge({ ...AVAILABLE, isProtected: true }, asked("POWER")).admitted).toBe(false);
  });

  test("on a retired node, unless it would put the node in service", () => {
    const retired: NodeFacts = { ...AVAILABLE, isRetired: true, inspectsWithoutReboot: true };
    const verdictOf = (verb: OperationKind) =>
      NODE_STATE_NAMES.some((state) => judge({ ...retired, state }, asked(verb)).admitted);
    expect(NODE_VERBS.filter((verb) => !verdictOf(verb))).toEqual(["COMMISSION", "DEPLOY", "UPDATE"]);
  });

  test("to decommission what has disappeared, by force [R-030]", () => {
    expect(judge({ ...AVAILABLE, hasDisappeared: true }, asked("DECOMMISSION", { force: true })).admitted).toBe(true);
  });

  test("to decommission where the driver can neither clean nor deploy: what it can is enough", () => {
    expect(judge({ ...AVAILABLE, state: "ACTIVE", can: CANNOT }, asked("DECOMMISSION")).admitted).toBe(true);
  });

  test("on an ACTIVE node in place, where the driver inspects without a reboot", () => {
    expect(judge({ ...AVAILABLE, state: "ACTIVE", inspectsWithoutReboot: true }, asked("INSPECT")).admitted).toBe(true);
    expect(judge({ ...AVAILABLE, state: "ACTIVE" }, asked("INSPECT")).admitted).toBe(false);
  });
});
