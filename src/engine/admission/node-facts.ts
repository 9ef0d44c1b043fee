/** The facts about a node that admission decides by. */
import type { NodeFacts } from "../../lifecycle/admission.ts";
import { setsPower } from "../../drivers/registry.ts";
import type { Composition, Registry } from "../../drivers/registry.ts";
import { NODE_FIELDS } from "../../store/nodes/node-fields.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";

export const NO_DRIVERS: Composition = { giver: () => null, givers: () => [], inspectors: [], drivers: [] };

/** The facts that are in the row of a node. */
type RowFacts = Omit<
  NodeFacts,
  "busyWith" | "failedTarget" | "driverProblem" | "can" | "inspectsWithoutReboot" | "inspectsInPlace"
>;

/** For an admission the node's row has to be locked. The other parameters: see `factsWith`. */
export function factsOf(
  node: NodeRow,
  composed: ReturnType<Registry["compose"]>,
  busy: NodeFacts["busyWith"],
  failedTarget: NodeFacts["failedTarget"] = null,
): NodeFacts {
  const row: RowFacts = {
    id: node.id,
    name: node.name,
    state: node.state,
    stage: node.stage,
    inMaintenance: node.maintenanceSince !== null,
    isProtected: node.isProtected,
    isRetired: node.retiredReason !== null,
    hasDisappeared: node.presence === "DISAPPEARED",
    fault: NODE_FIELDS.fault.value(node),
    identityConflict: node.identityConflict,
    driver: node.driver,
  };
  return factsWith(row, composed, busy, failedTarget);
}

/** `busy`: the operation that runs on the node. `failedTarget`: as in `NodeFacts`. */
export function factsWith(
  row: RowFacts,
  composed: ReturnType<Registry["compose"]>,
  busy: NodeFacts["busyWith"],
  failedTarget: NodeFacts["failedTarget"] = null,
): NodeFacts {
  const composition = "composition" in composed ? composed.composition : NO_DRIVERS;
  const withoutReboot = composition.inspectors.map(({ inspect }) => inspect?.withoutReboot === true);
  return {
    ...row,
    busyWith: busy,
    failedTarget,
    driverProblem: "problem" in composed ? composed.problem : null,
    can: {
      inspect: withoutReboot.length > 0,
      clean: composition.giver("clean") !== null,
      cleanAutomatically: composition.giver("clean")?.clean?.steps.some(({ priority }) => priority > 0) ?? false,
      deploy: composition.giver("deploy") !== null,
      setPower: setsPower(composition),
      setBootDevice: composition.givers("power").some(({ power }) => power.setBootDevice !== undefined),
    },
    inspectsWithoutReboot: withoutReboot.length > 0 && !withoutReboot.includes(false),
    inspectsInPlace: withoutReboot.includes(true),
  };
}
