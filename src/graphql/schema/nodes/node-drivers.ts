/** `Node.drivers`: the drivers of a node, with the interfaces that each provides. */
import { FUNCTION_INTERFACES, INTERFACES } from "../../../drivers/interfaces.ts";
import type { InterfaceName } from "../../../drivers/interfaces.ts";
import type { DriverChoice } from "../../../drivers/registry.ts";
import { circuitOf } from "../../../engine/views.ts";
import type { Circuit } from "../../../engine/views.ts";
import type { NodeRow } from "../../../store/nodes/nodes.ts";
import { builder } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import { CircuitStateEnum, DriverInterfaceEnum, FailureKindEnum } from "../../base/enums.ts";
import { DriverSettingsRef, visibleSettings } from "../fleet/driver-settings.ts";

interface DriverShare<Node extends DriverChoice = NodeRow> {
  readonly node: Node;
  readonly driver: string;
  readonly interfaces: readonly InterfaceName[];
  readonly fallbackFor: readonly InterfaceName[];
}

const CircuitRef = builder.objectRef<Circuit>("ControllerCircuit").implement({
  description: "Open circuit of a management controller: calls to it fail at once.",
  fields: (t) => ({
    state: t.expose("state", {
      type: CircuitStateEnum,
      description: "Whether a call may try it.",
    }),
    controller: t.exposeString("controller", {
      description: "The controller, as the driver names it; the id of the node if the controller is its own.",
    }),
    failures: t.exposeInt("failures", { description: "Number of failures in a row." }),
    reason: t.exposeString("reason", { description: "Reason for the last failure, for people." }),
    kind: t.expose("kind", { type: FailureKindEnum, description: "Cause of the last failure." }),
    openedAt: t.expose("openedAt", { type: "DateTime", description: "Time since which calls fail at once." }),
    nextProbeAt: t.expose("nextProbeAt", {
      type: "DateTime",
      description: "From this time on, one call tries the controller again.",
    }),
  }),
});

export const NodeDriverRef = builder.objectRef<DriverShare>("NodeDriver").implement({
  description: "Driver that works on a node, with the node's settings for it.",
  fields: (t) => ({
    name: t.exposeString("driver", { description: "Name of the driver." }),
    interfaces: t.expose("interfaces", {
      type: [DriverInterfaceEnum],
      description: "Interfaces of the node that the driver provides.",
    }),
    fallbackFor: t.expose("fallbackFor", {
      type: [DriverInterfaceEnum],
      description:
        "Interfaces for which the driver is tried when the drivers before it do not answer or lack the ability.",
    }),
    circuit: t.field({
      type: CircuitRef,
      nullable: true,
      description:
        "Circuit breaker of the driver's controller; null while calls pass. Each replica has its own; this is the one of the replica that answers.",
      resolve: ({ node, driver }, _args, { services: { registry } }) => {
        const loaded = registry.get(driver);
        return loaded ? circuitOf(registry, loaded, node) : null;
      },
    }),
    settings: t.field({
      type: DriverSettingsRef,
      nullable: true,
      description: "Settings without secrets. Null while the driver is not loaded; `Node.verbs` then has the reason.",
      resolve: ({ node, driver }, _args, { services }) =>
        visibleSettings(services.registry.get(driver), node.settings[driver]),
    }),
    secretsSet: t.stringList({
      description: "Names of the secret settings that are set. Their values are never returned.",
      resolve: async ({ node, driver }, _args, { load }) => [
        ...((await load.secretFields.load(node.id))[driver] ?? []),
      ],
    }),
  }),
});

/** The drivers of a node: first its own one, alone if another one is not loaded. */
export function driverShares<Node extends DriverChoice>(
  node: Node,
  registry: Context["services"]["registry"],
): DriverShare<Node>[] {
  const composed = registry.compose(node);
  if ("problem" in composed) return [{ node, driver: node.driver, interfaces: [], fallbackFor: [] }];
  const { composition } = composed;
  return composition.drivers.map(({ name: driver }) => ({
    node,
    driver,
    interfaces: INTERFACES.filter((name) =>
      name === "deploy"
        ? composition.givers(name).some((giver) => giver.name === driver)
        : composition.giver(name)?.name === driver,
    ),
    fallbackFor: FUNCTION_INTERFACES.filter((name) =>
      composition.givers(name).some((giver, index) => index > 0 && giver.name === driver),
    ),
  }));
}
