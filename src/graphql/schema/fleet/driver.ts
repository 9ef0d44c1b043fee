/** Loaded drivers with their interfaces and steps. */
import type { AnyDriver, AnyStep, InterfaceName } from "../../../drivers/interfaces.ts";
import { INTERFACES, stepsOf } from "../../../drivers/interfaces.ts";
import { settingsSchema } from "../../../drivers/registry.ts";
import type { StoredJson } from "../../../store/records.ts";
import { builder, needs } from "../../base/builder.ts";
import { StepDefinitionRef } from "../plans/catalogue.ts";
import { DriverInterfaceEnum } from "../../base/enums.ts";
import { globalId } from "../../base/ids.ts";
import { DriverRef } from "../../base/refs.ts";

interface Offer {
  readonly kind: InterfaceName;
  readonly supportsAbort: boolean;
  readonly steps: readonly AnyStep[];
}

const DriverInterfaceRef = builder.objectRef<Offer>("DriverInterface").implement({
  description: "Interface of a driver with its steps.",
  fields: (t) => ({
    kind: t.expose("kind", { type: DriverInterfaceEnum, description: "Kind of the interface." }),
    supportsAbort: t.exposeBoolean("supportsAbort", {
      description: "Whether the running steps of this interface can be aborted.",
    }),
    steps: t.expose("steps", {
      type: [StepDefinitionRef],
      description: "Steps of the interface.",
    }),
  }),
});

function offersOf(driver: AnyDriver): Offer[] {
  return INTERFACES.flatMap((kind): Offer[] => {
    if (!driver[kind]) return [];
    const offered = stepsOf(driver, kind);
    return [{ kind, supportsAbort: offered?.supportsAbort ?? true, steps: offered?.steps ?? [] }];
  });
}

builder.objectType(DriverRef, {
  description: "Loaded driver.",
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: ({ name }) => globalId("Driver", name) }),
    name: t.exposeString("name", { description: "Unique name, such as `ipmi`; nodes refer to it." }),
    version: t.exposeString("version", { description: "Version of the driver's plugin." }),
    description: t.exposeString("description", {
      description: "Machines that the driver supports, and how it reaches them.",
    }),
    settingsSchema: t.field({
      type: "JSON",
      description:
        "JSON Schema of a node's settings for the driver. The GraphQL types of the settings are made from it; it also has bounds and patterns. Fields marked `writeOnly` are secrets.",
      resolve: (driver) => settingsSchema(driver) as StoredJson,
    }),
    interfaces: t.field({
      type: [DriverInterfaceRef],
      description: "Interfaces that the driver implements.",
      resolve: offersOf,
    }),
  }),
});

builder.queryField("drivers", (t) =>
  t.field({
    type: [DriverRef],
    ...needs("READ"),
    description: "All loaded drivers.",
    resolve: (_root, _args, { services }) => services.registry.drivers,
  }),
);
