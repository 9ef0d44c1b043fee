/** Makes the fields of nodes that are composed of facts in lists (src/store/nodes/composed-fields.ts). */
import { factsWith } from "../../../engine/views.ts";
import { NODE_VERBS } from "../../../lifecycle/verbs.ts";
import type { ComposedName, DriverFacts, VerbFacts } from "../../../store/nodes/composed-fields.ts";
import type { Composer } from "../../execution/json-list-composed.ts";
import type { Context } from "../../base/context.ts";
import { driverShares } from "./node-drivers.ts";
import { VERDICT_VALUES, verdictsOf } from "./node-verbs.ts";

type Registry = Context["services"]["registry"];

/** Values are those of the response: enums by their names. */
export function composersOf(registry: Registry, actor: Context["actor"]): Readonly<Record<ComposedName, Composer>> {
  return {
    drivers(text) {
      const [driver, borrowed, fallbacks] = JSON.parse(text) as DriverFacts;
      return driverShares({ driver, borrowed, fallbacks }, registry).map((share) => ({
        name: share.driver,
        interfaces: share.interfaces.map((name) => name.toUpperCase()),
        fallbackFor: share.fallbackFor.map((name) => name.toUpperCase()),
      }));
    },
    verbs: (text, name) =>
      verdictsOf(nodeFacts(JSON.parse(text) as VerbFacts, name, registry), NODE_VERBS, actor).map((verdict) =>
        Object.fromEntries(Object.entries(VERDICT_VALUES).map(([field, valueOf]) => [field, valueOf(verdict)])),
      ),
  };
}

function nodeFacts(facts: VerbFacts, name: string, registry: Registry) {
  const [driver, borrowed, fallbacks, state, stage, inMaintenance, isProtected, isRetired, hasDisappeared] = facts;
  const [fault, busyWith, identityConflict] = [facts[9], facts[10], facts[11]];
  const row = { state, stage, inMaintenance, isProtected, isRetired, hasDisappeared, driver };
  return factsWith(
    {
      // Refusals name the node by its id too, but no field of a verdict has it.
      id: "",
      name,
      ...row,
      fault: fault && { kind: fault[0], since: new Date(fault[1]), message: fault[2] },
      identityConflict,
    },
    registry.compose({ driver, borrowed, fallbacks }),
    busyWith && { operationId: busyWith[0], kind: busyWith[1], isEnding: busyWith[2], isWaiting: busyWith[3] },
  );
}
