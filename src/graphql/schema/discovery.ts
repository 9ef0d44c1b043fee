/** What comes into being by being found: discoveries, address by address, and what monitoring reports of presence. */
import { PRESENCE_CHANGES, PRESENCE_EVENTS } from "../../engine/engine.ts";
import type { DiscoverAnswer } from "../../engine/discovery/discover.ts";
import type { PresenceAnswer, PresenceReported } from "../../engine/inventory/presence.ts";
import { discoverySchema } from "../../drivers/registry.ts";
import { DISCOVERY_STATES, addressesMissed, discoveriesPages } from "../../store/discoveries.ts";
import type { DiscoveryRow } from "../../store/discoveries.ts";
import type { JsonObject, StoredJson } from "../../store/records.ts";
import { QueryRef, builder, enumValues, given, needs } from "../base/builder.ts";
import {
  connectionType,
  connectionWith,
  EMPTY_PAGE,
  numberedRequest,
  PAGE_MAX,
  pageArgs,
  placeOf,
} from "../base/connection.ts";
import { callerOf } from "../base/context.ts";
import {
  DiscoverySettingsInput,
  DiscoverySettingsRef,
  DriverSettingsInput,
  chosenDriver,
  toldDiscoverySettings,
} from "./driver-settings.ts";
import { UserErrorRef } from "../base/errors.ts";
import { DriverRef, FailureRef, NodeRef, OperationRef } from "../base/refs.ts";
import { ClusterRefInput, LabelInput, clusterChoice } from "./selectors.ts";

const DiscoveryStateEnum = builder.enumType("DiscoveryState", {
  description: "What came of an address. May gain values.",
  values: enumValues(DISCOVERY_STATES),
});
const PresenceEventEnum = builder.enumType("PresenceEvent", {
  description: "What monitoring says of a node.",
  values: enumValues(PRESENCE_EVENTS),
});
const PresenceChangeEnum = builder.enumType("PresenceChange", {
  description: "What a report did to a node. May gain values.",
  values: enumValues(PRESENCE_CHANGES),
});

const DiscoveryRef = builder.objectRef<DiscoveryRow>("Discovery");
DiscoveryRef.implement({
  description: "One address of a discovery, and what came of it.",
  fields: (t) => ({
    address: t.exposeString("address", { description: "Host name or IP address that was, or will be, probed." }),
    state: t.field({ type: DiscoveryStateEnum, description: "What came of it.", resolve: ({ state }) => state }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "The node there; null while there is none, and when it has been deleted since.",
      resolve: ({ nodeId }, _args, { load }) => (nodeId === null ? null : load.node.load(nodeId)),
    }),
    failure: t.field({
      type: FailureRef,
      nullable: true,
      description: "Why there is none.",
      resolve: ({ failure }) => failure,
    }),
    finishedAt: t.expose("finishedAt", { type: "DateTime", nullable: true, description: "When that was known." }),
  }),
});

const DiscoveryConnection = connectionType("Discovery", DiscoveryRef);

const DiscoveryTermsRef = builder
  .objectRef<{ readonly driver: string; readonly settings: JsonObject; readonly namePrefix?: string }>("DiscoveryTerms")
  .implement({
    description: "With what a discovery probes.",
    fields: (t) => ({
      driver: t.exposeString("driver", { description: "Name of the driver." }),
      settings: t.field({
        type: DiscoverySettingsRef,
        nullable: true,
        description: "With what it probes, without its secrets; null while the driver is not loaded.",
        resolve: ({ driver, settings }, _args, { services }) =>
          toldDiscoverySettings(services.registry.get(driver), settings),
      }),
      namePrefix: t.string({
        nullable: true,
        description: "What comes before the address in the name of a machine that tells none.",
        resolve: ({ namePrefix }) => namePrefix ?? null,
      }),
    }),
  });

builder.objectFields(OperationRef, (t) => ({
  discoveryTerms: t.field({
    type: DiscoveryTermsRef,
    nullable: true,
    description: "Of a discovery: with what it probes; null for every other kind.",
    resolve: ({ options }) => options.discovery ?? null,
  }),
  discoveries: t.field({
    type: DiscoveryConnection,
    description: "Of a discovery: its addresses, in the order of the request.",
    args: {
      states: t.arg({ type: [DiscoveryStateEnum], description: "Only addresses in these states." }),
      ...pageArgs(t.arg),
    },
    resolve: async ({ id }, args, { load }) => {
      const asked = { states: given(args.states), ...numberedRequest(args, PAGE_MAX, placeOf) };
      return connectionWith(await load.below(discoveriesPages, id, asked, EMPTY_PAGE), ({ ordinal }) =>
        String(ordinal),
      );
    },
  }),
  failedAddresses: t.stringList({
    description:
      "Of a discovery: all addresses at which no node was found, in the order of the request; those that failed, and those that had no turn. Post them again with discoverNodes.",
    resolve: async ({ id, kind }, _args, { load }) =>
      kind === "DISCOVER" ? [...(await load.below(addressesMissed, id, null, []))] : [],
  }),
}));

builder.objectFields(DriverRef, (t) => ({
  discoverySchema: t.field({
    type: "JSON",
    nullable: true,
    description:
      "JSON Schema of the settings that discoverNodes takes for it, with secrets marked `writeOnly`; null when it discovers nothing.",
    resolve: (driver) => discoverySchema(driver) as StoredJson,
  }),
}));

// ---- discoverNodes

const DiscoverNodesInput = builder.inputType("DiscoverNodesInput", {
  description: "Probe addresses and register what answers.",
  fields: (t) => ({
    addresses: t.stringList({
      required: true,
      description:
        "Host names, IP addresses and CIDR ranges of both families, without ports; at most 4096 addresses in all, each counted once. Of an IPv4 range the network's and the broadcast address are left out.",
    }),
    driver: t.field({
      type: DiscoverySettingsInput,
      required: true,
      description:
        "Driver that probes, and that the nodes get, with what it probes with: the login mostly. Secrets are forgotten when the discovery ends.",
    }),
    cluster: t.field({ type: ClusterRefInput, description: "Cluster that the nodes become members of." }),
    labels: t.field({ type: [LabelInput], description: "Labels that the nodes get." }),
    namePrefix: t.string({
      description:
        "What comes before the address in the name of a machine that tells none: letters, digits, dot, dash, underscore; at most 100.",
    }),
    idempotencyKey: t.string({
      description:
        "The same key with the same input, by the same caller, answers the same operation and probes nothing twice; 1 to 200 characters.",
    }),
    dryRun: t.boolean({
      required: true,
      defaultValue: false,
      description: "Only check the request and list its addresses. Nothing is written or probed.",
    }),
    reason: t.string({ description: "Why; goes into the transitions." }),
  }),
});

const DiscoverNodesPayloadRef = builder.objectRef<DiscoverAnswer>("DiscoverNodesPayload").implement({
  description: "Answer to a discovery. `errors` is empty when the request was accepted.",
  fields: (t) => ({
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description: "The stored operation; null when refused or only planned.",
      resolve: ({ operationId }, _args, { load }) => (operationId === null ? null : load.operation.load(operationId)),
    }),
    addresses: t.stringList({
      description: "Addresses that are (with `dryRun`: would be) probed, each once; empty when refused.",
      resolve: ({ addresses }) => [...addresses],
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Everything that is wrong with the request.",
      resolve: ({ refusals }) => [...refusals],
    }),
    replayed: t.exposeBoolean("replayed", {
      description: "Whether an earlier request with the same key is answered again.",
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
  }),
});

builder.mutationField("discoverNodes", (t) =>
  t.field({
    type: DiscoverNodesPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description:
      "Probe addresses with a driver, and register what answers: an operation of kind DISCOVER, with each address in `Operation.discoveries`. Nodes that are registered already are left as they are.",
    args: {
      input: t.arg({ type: DiscoverNodesInput, required: true, description: "Which addresses, and with what." }),
    },
    resolve: (_root, { input }, context) =>
      context.services.engine.discoverNodes(callerOf(context), {
        addresses: input.addresses,
        ...chosenDriver(input.driver),
        cluster: input.cluster ? clusterChoice(input.cluster) : undefined,
        labels: labelsOf(input.labels),
        namePrefix: given(input.namePrefix),
        idempotencyKey: given(input.idempotencyKey),
        dryRun: input.dryRun,
        reason: given(input.reason),
      }),
  }),
);

function labelsOf(labels: readonly { readonly key: string; readonly value: string }[] | null | undefined) {
  return labels ? Object.fromEntries(labels.map(({ key, value }) => [key, value])) : undefined;
}

// ---- reportPresence

const ReportedNodeInput = builder.inputType("ReportedNodeInput", {
  description: "A node as monitoring reports it. All but its name is for nodes that are not registered yet.",
  fields: (t) => ({
    name: t.string({ required: true, description: "Name that it has, or gets, among the nodes." }),
    driver: t.field({
      type: DriverSettingsInput,
      description: "Its driver, with settings for it: without it an unknown node is not registered.",
    }),
    labels: t.field({ type: [LabelInput], description: "What a node that is registered by this is marked with." }),
  }),
});

const ReportPresenceInput = builder.inputType("ReportPresenceInput", {
  description: "Report what monitoring sees of nodes.",
  fields: (t) => ({
    event: t.field({ type: PresenceEventEnum, required: true, description: "What it says of all of them." }),
    nodes: t.field({ type: [ReportedNodeInput], required: true, description: "The nodes, at least one." }),
  }),
});

const PresenceResultRef = builder.objectRef<PresenceAnswer>("PresenceResult").implement({
  description: "Answer to one node of a report, in the order asked.",
  fields: (t) => ({
    ref: t.exposeString("ref", { description: "Name in the report." }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "The node as it is now; null where there is none.",
      resolve: ({ nodeId }, _args, { load }) => (nodeId === null ? null : load.node.load(nodeId)),
    }),
    change: t.field({
      type: PresenceChangeEnum,
      nullable: true,
      description: "What the report did to it; null where it could not be taken.",
      resolve: ({ change }) => change,
    }),
    error: t.field({
      type: UserErrorRef,
      nullable: true,
      description:
        "Why it could not be taken: NOT_FOUND for an unknown node that disappeared, INVALID_INPUT for one that was discovered and cannot be registered.",
      resolve: ({ refusal }) => refusal,
    }),
  }),
});

const ReportPresencePayloadRef = builder.objectRef<PresenceReported>("ReportPresencePayload").implement({
  description: "Answer to a report.",
  fields: (t) => ({
    results: t.field({
      type: [PresenceResultRef],
      description: "One answer for each node named. One that could not be taken keeps no other from being taken.",
      resolve: ({ results }) => [...results],
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why the report as a whole was refused; empty when it was taken, also where single nodes were not.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
  }),
});

builder.mutationField("reportPresence", (t) =>
  t.field({
    type: ReportPresencePayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description:
      "Tell that nodes were seen, or are not any more. Changes their presence and nothing else, starts no work, and works while runs are going on. An unknown node that was discovered is registered. A report that says nothing new changes nothing.",
    args: { input: t.arg({ type: ReportPresenceInput, required: true, description: "What is said of which nodes." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.reportPresence(
        callerOf(context),
        input.event,
        input.nodes.map(({ name, driver, labels }) => ({
          name,
          ...(driver && chosenDriver(driver)),
          labels: labelsOf(labels),
        })),
      ),
  }),
);
