/** Admission of a verb on a node: each refusal with its code, and which one a node with several gets. */
import { describe, expect, test } from "vitest";
import { judge } from "../../src/lifecycle/admission.ts";
import type { NodeFacts, VerbRequest } from "../../src/lifecycle/admission.ts";
import type { NODE_FAULTS } from "../../src/lifecycle/faults.ts";
import { follow } from "../../src/lifecycle/machine.ts";
import { NODE_STATE_NAMES } from "../../src/lifecycle/node-states.ts";
import { NODE_VERBS, OPERATION_KINDS, route } from "../../src/lifecycle/verbs.ts";
import type { OperationKind } from "../../src/lifecycle/verbs.ts";
import { KINDS, rulesOf } from "../durability/expectations.ts";

const AVAILABLE: NodeFacts = {
  id: "1",
  name: "rack3-u12",
  state: "AVAILABLE",
  stage: "NONE",
  inMaintenance: false,
  isProtected: false,
  isRetired: false,
  hasDisappeared: false,
  fault: null,
  busyWith: null,
  driverProblem: null,
  can: { inspect: true, clean: true, cleanAutomatically: true, deploy: true, setPower: true, setBootDevice: true },
  inspectsWithoutReboot: false,
  driver: "ipmi",
};

const aRequest = (verb: OperationKind, more: Partial<VerbRequest> = {}): VerbRequest => ({
  verb,
  options: {},
  force: false,
  ...more,
});

const BUSY = { operationId: "7f2", kind: "DEPLOY" } as const;
const CANNOT = {
  inspect: false,
  clean: false,
  cleanAutomatically: false,
  deploy: false,
  setPower: false,
  setBootDevice: false,
};

describe("refused verb", () => {
  test.each<{ why: string; node: Partial<NodeFacts>; request: VerbRequest; code: string; says: string }>([
    {
      why: "on a busy node",
      node: { busyWith: BUSY },
      request: aRequest("CLEAN"),
      code: "BUSY",
      says: "busy with DEPLOY operation 7f2. Wait for it, stop it, or abort it",
    },
    {
      why: "on a node in maintenance",
      node: { inMaintenance: true },
      request: aRequest("DEPLOY"),
      code: "IN_MAINTENANCE",
      says: "End the maintenance with clearMaintenance",
    },
    {
      why: "on a protected node that it would destroy",
      node: { isProtected: true },
      request: aRequest("DEPLOY"),
      code: "PROTECTED",
      says: "Remove the protection with updateNodes",
    },
    {
      why: "on a protected node that it would switch off",
      node: { isProtected: true },
      request: aRequest("POWER", { options: { powerAction: "SOFT_OFF" } }),
      code: "PROTECTED",
      says: "Remove the protection with updateNodes",
    },
    {
      why: "with force on a node that seems to be the same machine as another one",
      node: { identityConflict: { kind: "SERIAL_NUMBER", value: "S1", nodeName: "rack3-u13" } },
      request: aRequest("DECOMMISSION", { force: true }),
      code: "IDENTITY_CONFLICT",
      says: "same machine as node rack3-u13: both have the serial number S1. Delete one of the nodes",
    },
    {
      why: "on a retired node that it would put in service",
      node: { isRetired: true },
      request: aRequest("DEPLOY"),
      code: "PROTECTED",
      says: "is retired. End the retirement with clearRetired first, or decommission the node",
    },
    {
      why: "DECOMMISSION on a DISAPPEARED node",
      node: { hasDisappeared: true },
      request: aRequest("DECOMMISSION"),
      code: "INVALID_STATE",
      says: "force: true",
    },
    {
      why: "on a DISAPPEARED node",
      node: { hasDisappeared: true },
      request: aRequest("DEPLOY"),
      code: "INVALID_STATE",
      says: "as disappeared. Wait until monitoring sees it again, or send the request with force: true",
    },
    {
      why: "on a node whose BMC is unreachable",
      node: { fault: { kind: "BMC_UNREACHABLE", since: new Date(0), message: "No answer." } },
      request: aRequest("POWER"),
      code: "INVALID_STATE",
      says: "has had the fault BMC_UNREACHABLE since 1970-01-01T00:00:00.000Z: No answer. Repair its connection",
    },
    {
      why: "that deploys without cleaning after a failed clean-up",
      node: { fault: { kind: "CLEAN_UP_FAILED", since: new Date(0), message: "Tear-down failed." } },
      request: aRequest("DEPLOY"),
      code: "INVALID_STATE",
      says: "force: true",
    },
    {
      why: "on a node without its driver",
      node: { driverProblem: 'driver "ipmi" is not loaded.' },
      request: aRequest("POWER"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: 'driver "ipmi" is not loaded',
    },
    {
      why: "on a node in the wrong state",
      node: { state: "ENROLLED" },
      request: aRequest("DEPLOY"),
      code: "INVALID_STATE",
      says: "is ENROLLED. DEPLOY is allowed from AVAILABLE, DEPLOY_FAILED.",
    },
    {
      why: "DEPLOY on an ACTIVE node, which would be reinstalled unasked",
      node: { state: "ACTIVE", stage: "DEPLOYED" },
      request: aRequest("DEPLOY"),
      code: "INVALID_STATE",
      says: "Send reinstall: true to erase its system and install again, or use redeployNodes",
    },
    ...(["MANAGEABLE", "ENROLLED"] as const).map((state) => ({
      why: `COMMISSION on a node that is ${state} with an installed system`,
      node: { state, stage: "PROVISIONED" as const },
      request: aRequest("COMMISSION"),
      code: "INVALID_STATE",
      says: "which this commission would erase. Send from: BEGINNING to erase it",
    })),
    {
      why: "COMMISSION until AVAILABLE on a node with an installed system",
      node: { state: "STOPPED", stage: "PROVISIONED" },
      request: aRequest("COMMISSION", { options: { until: "AVAILABLE" } }),
      code: "INVALID_STATE",
      says: "Send from: BEGINNING to erase it",
    },
    {
      why: "on a node whose driver cannot inspect",
      node: { state: "MANAGEABLE", can: CANNOT },
      request: aRequest("INSPECT"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "driver ipmi cannot inspect. Take this interface from another driver (interfaces: [{ kinds: [INSPECT]",
    },
    {
      why: "on a node whose driver cannot set the boot device",
      node: { can: CANNOT },
      request: aRequest("BOOT_DEVICE"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "driver ipmi cannot set the boot device. Take this interface from another driver (interfaces: [{ kinds: [POWER]",
    },
    {
      why: "on a node whose driver cannot clean",
      node: { can: CANNOT },
      request: aRequest("CLEAN"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "cannot clean",
    },
    {
      why: "on a node whose driver cannot deploy",
      node: { can: CANNOT },
      request: aRequest("DEPLOY"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "cannot deploy",
    },
    {
      why: "on a node whose driver cannot undeploy",
      node: { state: "ACTIVE", can: CANNOT },
      request: aRequest("UNDEPLOY"),
      code: "UNSUPPORTED_BY_DRIVER",
      says: "cannot deploy",
    },
  ])("verb $why is refused with $code [R-042]", ({ node, request, code, says }) => {
    const verdict = judge({ ...AVAILABLE, ...node }, request);
    expect(verdict).toMatchObject({
      admitted: false,
      refusal: { code, nodeId: "1", message: expect.stringContaining(says) },
    });
    expect(verdict).toMatchObject({ refusal: { message: expect.stringContaining("rack3-u12") } });
  });

  test("refusal INVALID_STATE names the states in which the verb is allowed", () => {
    expect(judge({ ...AVAILABLE, state: "ENROLLED" }, aRequest("DEPLOY"))).toMatchObject({
      refusal: { allowedStates: ["AVAILABLE", "DEPLOY_FAILED"] },
    });
  });

  test("refusal BUSY names the other operation", () => {
    expect(judge({ ...AVAILABLE, busyWith: BUSY }, aRequest("DEPLOY"))).toMatchObject({
      refusal: { operationId: "7f2" },
    });
  });

  test("refusal BUSY comes before all others, because it passes without action", () => {
    const troubled: NodeFacts = {
      ...AVAILABLE,
      busyWith: BUSY,
      inMaintenance: true,
      isProtected: true,
      state: "ENROLLED",
      driverProblem: "no driver.",
    };
    expect(judge(troubled, aRequest("DEPLOY"))).toMatchObject({ refusal: { code: "BUSY" } });
    expect(judge({ ...troubled, busyWith: null }, aRequest("DEPLOY"))).toMatchObject({
      refusal: { code: "IN_MAINTENANCE" },
    });
    expect(judge({ ...troubled, busyWith: null, inMaintenance: false }, aRequest("DEPLOY"))).toMatchObject({
      refusal: { code: "PROTECTED" },
    });
    expect(
      judge({ ...troubled, busyWith: null, inMaintenance: false, isProtected: false }, aRequest("DEPLOY")),
    ).toMatchObject({ refusal: { code: "UNSUPPORTED_BY_DRIVER" } });
  });
});

describe("admission of a cleaning", () => {
  const ON_REQUEST: NodeFacts = {
    ...AVAILABLE,
    state: "MANAGEABLE",
    can: { ...AVAILABLE.can, cleanAutomatically: false },
  };

  test("automatic cleaning is refused if the driver declares no automatic clean step, because nothing would be erased [R-454]", () => {
    expect(judge(ON_REQUEST, aRequest("PROVIDE"))).toMatchObject({
      refusal: { code: "UNSUPPORTED_BY_DRIVER", message: expect.stringContaining("no automatic clean step") },
    });
    expect(judge(ON_REQUEST, aRequest("CLEAN"))).toMatchObject({ admitted: true });
  });
});

describe("admission of a restart", () => {
  const clean = route("CLEAN", "AVAILABLE");

  test("restart is admitted by its remaining route, not by the whole route of its verb", () => {
    const cleaner: NodeFacts = { ...AVAILABLE, can: { ...CANNOT, clean: true, cleanAutomatically: true } };
    expect(judge(cleaner, aRequest("COMMISSION", { resumed: clean }))).toEqual({ admitted: true, route: clean });
    expect(judge({ ...cleaner, can: CANNOT }, aRequest("COMMISSION", { resumed: clean }))).toMatchObject({
      refusal: { code: "UNSUPPORTED_BY_DRIVER" },
    });
  });

  test("restart of a commission takes the missing phases if a failed clean-up has left the node off the earlier route", () => {
    const whole: NodeFacts = { ...AVAILABLE, state: "CLEAN_FAILED" };
    expect(judge(whole, aRequest("COMMISSION", { resumed: null }))).toEqual({
      admitted: true,
      route: route("COMMISSION", "CLEAN_FAILED"),
    });
    expect(judge({ ...whole, state: "ACTIVE" }, aRequest("COMMISSION", { resumed: null }))).toMatchObject({
      refusal: { code: "NOTHING_TO_RESTART" },
    });
  });

  test("restart without a remaining route is refused with NOTHING_TO_RESTART, and by all other rules", () => {
    expect(judge(AVAILABLE, aRequest("DEPLOY", { resumed: null }))).toMatchObject({
      refusal: { code: "NOTHING_TO_RESTART", nodeId: "1" },
    });
    expect(judge({ ...AVAILABLE, busyWith: BUSY }, aRequest("DEPLOY", { resumed: clean }))).toMatchObject({
      refusal: { code: "BUSY" },
    });
    expect(judge({ ...AVAILABLE, inMaintenance: true }, aRequest("DEPLOY", { resumed: clean }))).toMatchObject({
      refusal: { code: "IN_MAINTENANCE" },
    });
  });
});

describe("retired node in admission", () => {
  test("retired node never becomes AVAILABLE, whatever is admitted, restarts included", () => {
    const retired: NodeFacts = { ...AVAILABLE, isRetired: true };
    for (const state of NODE_STATE_NAMES.filter((name) => name !== "AVAILABLE")) {
      for (const verb of NODE_VERBS) {
        for (const resumed of [undefined, route(verb, state)]) {
          const verdict = judge({ ...retired, state }, aRequest(verb, resumed === undefined ? {} : { resumed }));
          if (verdict.admitted) expect(verdict.route.target, `${verb} from ${state}`).not.toBe("AVAILABLE");
        }
      }
    }
  });

  test("retired node ends MANAGEABLE after an undeployment, along legal edges", () => {
    const verdict = judge(
      { ...AVAILABLE, isRetired: true, state: "ACTIVE" },
      aRequest("UNDEPLOY", { resumed: route("UNDEPLOY", "ACTIVE") }),
    );
    expect(verdict).toMatchObject({ admitted: true, route: { target: "MANAGEABLE", finish: ["manage"] } });
    const clean = judge({ ...AVAILABLE, isRetired: true, state: "CLEAN_FAILED" }, aRequest("CLEAN"));
    expect(clean.admitted && follow("CLEANING", clean.route.finish)).toBe("MANAGEABLE");
  });

  test("retired node that is still AVAILABLE stays so when it is cleaned", () => {
    expect(judge({ ...AVAILABLE, isRetired: true }, aRequest("CLEAN"))).toMatchObject({
      admitted: true,
      route: { target: "AVAILABLE" },
    });
  });
});

describe("admitted verb", () => {
  test("verb is admitted on a node with a fault if it leads out of it, and with force", () => {
    const node: NodeFacts = { ...AVAILABLE, state: "CLEAN_FAILED" };
    const fault = { since: new Date(0), message: "No answer." };
    const accepted = (kind: keyof typeof NODE_FAULTS, force = false) =>
      NODE_VERBS.filter((verb) =>
        NODE_STATE_NAMES.some(
          (state) => judge({ ...node, state, fault: { ...fault, kind } }, aRequest(verb, { force })).admitted,
        ),
      );
    expect(accepted("BMC_UNREACHABLE")).toEqual(["MANAGE"]);
    expect(accepted("CLEAN_UP_FAILED")).toEqual(NODE_VERBS.filter((verb) => verb !== "DEPLOY"));
    expect(accepted("BMC_UNREACHABLE", true)).toEqual([...NODE_VERBS]);
  });

  test("verb is admitted in exactly the states that have a route, with that route [R-009]", () => {
    for (const verb of Object.keys(OPERATION_KINDS) as OperationKind[]) {
      for (const state of NODE_STATE_NAMES) {
        const found = route(verb, state, { inspectsWithoutReboot: false });
        const verdict = judge({ ...AVAILABLE, state }, aRequest(verb));
        expect(verdict.admitted ? verdict.route : null, `${verb} ${state}`).toEqual(found);
      }
    }
  });

  test.each(["INSPECT", "POWER", "BOOT_DEVICE"] as const)(
    "verb is admitted on a node that seems to be the same machine as another one for %s, which erases nothing",
    (verb) => {
      const identityConflict = { kind: "UUID", value: "x", nodeName: "rack3-u13" } as const;
      const node = { ...AVAILABLE, identityConflict, inspectsWithoutReboot: true };
      expect(judge(node, aRequest(verb)).admitted).toBe(true);
    },
  );

  test.each(["INSPECT", "MANAGE"] as const)(
    "verb is admitted on a protected node for %s, which destroys nothing",
    (verb) => {
      expect(judge({ ...AVAILABLE, isProtected: true, inspectsWithoutReboot: true }, aRequest(verb)).admitted).toBe(
        true,
      );
    },
  );

  test("verb POWER is admitted on a protected node for ON only", () => {
    const admitted = (["ON", "OFF", "SOFT_OFF", "REBOOT", "SOFT_REBOOT"] as const).filter(
      (powerAction) =>
        judge({ ...AVAILABLE, isProtected: true }, aRequest("POWER", { options: { powerAction } })).admitted,
    );
    expect(admitted).toEqual(["ON"]);
    expect(judge({ ...AVAILABLE, isProtected: true }, aRequest("POWER")).admitted).toBe(false);
  });

  test("verb is admitted on a retired node unless it puts the node in service", () => {
    const retired: NodeFacts = { ...AVAILABLE, isRetired: true, inspectsWithoutReboot: true };
    const verdictOf = (verb: OperationKind) =>
      NODE_STATE_NAMES.some((state) => judge({ ...retired, state }, aRequest(verb)).admitted);
    expect(NODE_VERBS.filter((verb) => !verdictOf(verb))).toEqual(KINDS.filter((kind) => rulesOf(kind).putsInService));
  });

  test("every verb that ignored that a node had DISAPPEARED is admitted on it with force only [R-030]", () => {
    for (const verb of NODE_VERBS)
      for (const state of NODE_STATE_NAMES) {
        const gone: NodeFacts = { ...AVAILABLE, state, hasDisappeared: true };
        expect(judge(gone, aRequest(verb)).admitted, `${verb} from ${state}`).toBe(false);
        expect(judge(gone, aRequest(verb, { force: true }))).toEqual(
          judge({ ...gone, hasDisappeared: false }, aRequest(verb)),
        );
      }
  });

  test("verb on a DISAPPEARED node in the wrong state is refused because of the state, and names no force [R-337]", () => {
    const gone: NodeFacts = { ...AVAILABLE, state: "ACTIVE", hasDisappeared: true };
    expect(judge(gone, aRequest("PROVIDE"))).toEqual(judge({ ...gone, hasDisappeared: false }, aRequest("PROVIDE")));
    expect(judge(gone, aRequest("UNDEPLOY"))).toMatchObject({
      refusal: { message: expect.stringContaining("as disappeared") },
    });
  });

  test("verb DECOMMISSION is admitted for a driver that can neither clean nor deploy", () => {
    expect(judge({ ...AVAILABLE, state: "ACTIVE", can: CANNOT }, aRequest("DECOMMISSION")).admitted).toBe(true);
  });

  test("verb INSPECT is admitted on an ACTIVE node if the driver inspects without a reboot", () => {
    expect(judge({ ...AVAILABLE, state: "ACTIVE", inspectsWithoutReboot: true }, aRequest("INSPECT")).admitted).toBe(
      true,
    );
    expect(judge({ ...AVAILABLE, state: "ACTIVE" }, aRequest("INSPECT")).admitted).toBe(false);
  });
});
