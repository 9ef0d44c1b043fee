/** Drivers that are loaded, with what they offer. */
import type { AnyDriver, AnyStep, InterfaceName } from "../drivers/registry.ts";
import { INTERFACES, settingsSchema } from "../drivers/registry.ts";
import type { StoredJson } from "../store/records.ts";
import { builder, needs } from "./builder.ts";
import { DriverInterfaceEnum, InterruptibleEnum, PhaseEnum } from "./enums.ts";
import { globalId } from "./ids.ts";
import { DriverRef, ResourceRef } from "./refs.ts";

interface Offer {
  readonly kind: InterfaceName;
  readonly supportsAbort: boolean;
  readonly steps: readonly AnyStep[];
}

const StepDefinitionRef = builder.objectRef<AnyStep>("StepDefinition").implement({
  description: "A step that a driver offers.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Name, unique in its interface and phase." }),
    title: t.exposeString("title", { description: "What it does, for people." }),
    phase: t.field({ type: PhaseEnum, description: "Phase it belongs to.", resolve: ({ phase }) => phase }),
    priority: t.exposeInt("priority", { description: "Higher runs first; 0 means only on request." }),
    interruptible: t.field({ type: InterruptibleEnum, description: "Whether it may be cut while it runs.", resolve: ({ interruptible }) => interruptible }),
    idempotent: t.exposeBoolean("idempotent", { description: "Whether it may be entered again after a crash." }),
    timeoutSeconds: t.exposeFloat("timeoutSeconds", { description: "Longest time from its beginning to its end, waits included." }),
    argsSchema: t.field({
      type: "JSON",
      nullable: true,
      description: "JSON Schema of its arguments; null when it takes none.",
      resolve: ({ args }) => (args ? (args["~standard"].jsonSchema.input({ target: "draft-2020-12" }) as StoredJson) : null),
    }),
  }),
});

const DriverInterfaceRef = builder.objectRef<Offer>("DriverInterface").implement({
  description: "One interface of a driver.",
  fields: (t) => ({
    kind: t.field({ type: DriverInterfaceEnum, description: "Which.", resolve: ({ kind }) => kind }),
    supportsAbort: t.exposeBoolean("supportsAbort", { description: "Whether running work of this interface can be aborted." }),
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
    settingsSchema: t.field({ type: "JSON", description: "JSON Schema of a node's settings for it. Fields marked `writeOnly` are secrets.", resolve: (driver) => settingsSchema(driver) as StoredJson }),
    interfaces: t.field({ type: [DriverInterfaceRef], description: "What it offers.", resolve: offersOf }),
  }),
});

builder.queryField("drivers", (t) => t.field({ type: [DriverRef], ...needs("READ"), description: "Loaded drivers.", resolve: (_root, _args, { services }) => [...services.registry.drivers] }));
