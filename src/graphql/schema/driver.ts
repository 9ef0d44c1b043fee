/** Drivers that are loaded, with what they offer. */
import type { AnyDriver, AnyStep, InterfaceName } from "../../drivers/registry.ts";
import { INTERFACES, settingsSchema } from "../../drivers/registry.ts";
import type { StoredJson } from "../../store/records.ts";
import { builder, needs } from "../base/builder.ts";
import { StepDefinitionRef } from "./catalogue.ts";
import { DriverInterfaceEnum } from "../base/enums.ts";
import { globalId } from "../base/ids.ts";
import { DriverRef, ResourceRef } from "../base/refs.ts";

interface Offer {
  readonly kind: InterfaceName;
  readonly supportsAbort: boolean;
  readonly steps: readonly AnyStep[];
}

const DriverInterfaceRef = builder.objectRef<Offer>("DriverInterface").implement({
  description: "What a driver can do of one kind, and by which steps.",
  fields: (t) => ({
    kind: t.field({ type: DriverInterfaceEnum, description: "Which.", resolve: ({ kind }) => kind }),
    supportsAbort: t.exposeBoolean("supportsAbort", {
      description: "Whether running work of this interface can be aborted.",
    }),
    steps: t.field({ type: [StepDefinitionRef], description: "Steps it offers.", resolve: ({ steps }) => [...steps] }),
  }),
});

function offersOf(driver: AnyDriver): Offer[] {
  return INTERFACES.flatMap((kind): Offer[] => {
    if (kind === "power") return [{ kind, supportsAbort: true, steps: [] }];
    const offered = driver[kind];
    return offered ? [{ kind, supportsAbort: offered.supportsAbort, steps: offered.steps }] : [];
  });
}

builder.objectType(DriverRef, {
  description: "A loaded driver.",
  interfaces: [ResourceRef],
  isTypeOf: (value) => typeof value === "object" && value !== null && "contract" in value,
  fields: (t) => ({
    id: t.id({ description: "Global ID.", resolve: ({ name }) => globalId("Driver", name) }),
    name: t.exposeString("name", { description: "Unique name, e.g. `ipmi`: what a node names." }),
    version: t.exposeString("version", { description: "Version of the plugin." }),
    description: t.exposeString("description", { description: "Which machines it drives, and through what." }),
    settingsSchema: t.field({
      type: "JSON",
      description:
        "JSON Schema of a node's settings for it, of which their types here follow; it tells bounds and patterns as well. Fields marked `writeOnly` are secrets.",
      resolve: (driver) => settingsSchema(driver) as StoredJson,
    }),
    interfaces: t.field({ type: [DriverInterfaceRef], description: "What it offers.", resolve: offersOf }),
  }),
});

builder.queryField("drivers", (t) =>
  t.field({
    type: [DriverRef],
    ...needs("READ"),
    description: "Loaded drivers.",
    resolve: (_root, _args, { services }) => [...services.registry.drivers],
  }),
);
