/** Discovery of nodes at addresses, and presence reports from monitoring. */
import { PRESENCE_CHANGES, PRESENCE_EVENTS } from "../../../engine/views.ts";
import type { DiscoverAnswer } from "../../../engine/discovery/discover.ts";
import type { PresenceAnswer, PresenceReported } from "../../../engine/inventory/presence.ts";
import { discoverySchema } from "../../../drivers/registry.ts";
import {
  DISCOVERY_STATES,
  addressesMissed,
  discoveriesPages,
  discoveryCountsOf,
} from "../../../store/operations/discoveries.ts";
import type { DiscoveryRow } from "../../../store/operations/discoveries.ts";
import type { JsonObject, StoredJson } from "../../../store/records.ts";
import { builder, enumValues, given } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import {
  connectionType,
  connectionWith,
  EMPTY_PAGE,
  numberedRequest,
  PAGE_MAX,
  pageArgs,
  placeOf,
} from "../../base/connection.ts";
import {
  DiscoverySettingsInput,
  DiscoverySettingsRef,
  DriverSettingsInput,
  chosenDriver,
  visibleDiscoverySettings,
} from "./driver-settings.ts";
import { UserErrorRef } from "../../base/errors.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { DriverRef, FailureRef, OperationRef } from "../../base/refs.ts";
import { nodeField, operationField } from "../../base/shared-fields.ts";
import { ClusterRefInput, LabelInput, clusterChoice } from "../selectors.ts";

const DiscoveryStateEnum = builder.enumType("DiscoveryState", {
  description: "Result of probing an address. New values may be added.",
  values: enumValues(DISCOVERY_STATES),
});
const PresenceEventEnum = builder.enumType("PresenceEvent", {
  description: "Observation of a node by monitoring.",
  values: enumValues(PRESENCE_EVENTS),
});
const PresenceChangeEnum = builder.enumType("PresenceChange", {
  description: "Effect of a presence report on a node. New values may be added.",
  values: enumValues(PRESENCE_CHANGES),
});

const DiscoveryRef = builder.objectRef<DiscoveryRow>("Discovery");
DiscoveryRef.implement({
  description: "Address of a discovery and the result of probing it.",
  fields: (t) => ({
    address: t.exposeString("address", { description: "Host name or IP address to probe." }),
    state: t.expose("state", { type: DiscoveryStateEnum, description: "Result of the probe." }),
    node: nodeField(t, "Node found at the address; null if none was found or if it has been deleted."),
    failure: t.expose("failure", {
      type: FailureRef,
      nullable: true,
      description: "Reason why no node was found; null if one was.",
    }),
    finishedAt: t.expose("finishedAt", {
      type: "DateTime",
      nullable: true,
      description: "Time of the result; null if the address has not been probed.",
    }),
  }),
});

const DiscoveryConnection = connectionType("Discovery", DiscoveryRef);

const DiscoveryTermsRef = builder
  .objectRef<{ readonly driver: string; readonly settings: JsonObject; readonly namePrefix?: string }>("DiscoveryTerms")
  .implement({
    description: "Settings of a discovery.",
    fields: (t) => ({
      driver: t.exposeString("driver", { description: "Name of the driver." }),
      settings: t.field({
        type: DiscoverySettingsRef,
        nullable: true,
        description: "Settings of the probes, without secrets; null while the driver is not loaded.",
        resolve: ({ driver, settings }, _args, { services }) =>
          visibleDiscoverySettings(services.registry.get(driver), settings),
      }),
      namePrefix: t.exposeString("namePrefix", {
        nullable: true,
        description: "Prefix of the name of a machine that does not report a name itself; the address follows it.",
      }),
    }),
  });

builder.objectFields(OperationRef, (t) => ({
  discoveryTerms: t.field({
    type: DiscoveryTermsRef,
    nullable: true,
    description: "Settings of a discovery; null for other kinds of operations.",
    resolve: ({ options }) => options.discovery ?? null,
  }),
  discoveries: t.field({
    type: DiscoveryConnection,
    description: "Addresses of a discovery, in the order of the request; empty for other kinds of operations.",
    args: {
      states: t.arg({
        type: [DiscoveryStateEnum],
        description: "Only addresses with these results; an empty list matches nothing.",
      }),
      ...pageArgs(t.arg),
    },
    resolve: async ({ id }, args, { load }) => {
      const asked = { states: given(args.states), ...numberedRequest(args, PAGE_MAX, placeOf) };
      return connectionWith(
        await load.below(discoveriesPages, id, asked, EMPTY_PAGE),
        ({ ordinal }) => String(ordinal),
        () => load.below(discoveryCountsOf, id, { states: asked.states }, 0),
      );
    },
  }),
  failedAddresses: t.stringList({
    description:
      "All addresses of a discovery at which no node was found, in the order of the request: the failed ones and the ones that were not probed. Pass them to discoverNodes to try again. Empty for other kinds of operations.",
    resolve: async ({ id, kind }, _args, { load }) =>
      kind === "DISCOVER" ? [...(await load.below(addressesMissed, id, null, []))] : [],
  }),
}));

builder.objectFields(DriverRef, (t) => ({
  discoverySchema: t.field({
    type: "JSON",
    nullable: true,
    description:
      "JSON Schema of the driver's settings for discoverNodes, with secrets marked `writeOnly`; null if the driver does not support discovery.",
    resolve: (driver) => discoverySchema(driver) as StoredJson,
  }),
}));

// ---- discoverNodes

addMutation("discoverNodes", {
  scope: "MANAGE",
  description:
    "Probe addresses with a driver and register the machines that answer. Starts an operation of kind DISCOVER; `Operation.discoveries` has the result of each address. Nodes that are already registered are not changed.",
  input: builder.inputType("DiscoverNodesInput", {
    description: "Addresses to probe and terms for the nodes that are found.",
    fields: (t) => ({
      addresses: t.stringList({
        required: true,
        description:
          "Host names, IP addresses and CIDR ranges, IPv4 or IPv6, without ports. At most 4096 addresses in total; duplicates count once. The network and broadcast addresses of an IPv4 range are left out.",
      }),
      driver: t.field({
        type: DiscoverySettingsInput,
        required: true,
        description:
          "Driver that probes, with its settings, usually the credentials. Nodes that are found get this driver. Secrets are deleted when the discovery ends.",
      }),
      cluster: t.field({ type: ClusterRefInput, description: "Cluster to add the nodes to." }),
      labels: t.field({ type: [LabelInput], description: "Labels to set on the nodes." }),
      namePrefix: t.string({
        description:
          "Prefix of the name of a machine that does not report a name itself; the address follows it. At most 100 letters, digits, dots, dashes or underscores.",
      }),
      idempotencyKey: t.string({
        description:
          "Makes the request safe to repeat: the same key with the same input by the same caller returns the same operation and starts no second one. 1–200 characters.",
      }),
      dryRun: t.boolean({
        required: true,
        defaultValue: false,
        description: "Only check the request and list its addresses; nothing is written or probed.",
      }),
      reason: t.string({ description: "Reason for the request; stored with the transitions." }),
    }),
  }),
  argument: "Addresses, driver and terms.",
  payload: payloadType<DiscoverAnswer>(
    "discoverNodes",
    (t) => ({
      operation: operationField(t, "The stored operation; null for a refused request and for a dry run."),
      addresses: t.exposeStringList("addresses", {
        description:
          "Addresses that are (with `dryRun`: would be) probed, without duplicates; empty if the request was refused.",
      }),
      ...refusalFields(t, "Every reason why the request was refused; empty if it was accepted."),
      replayed: t.exposeBoolean("replayed", {
        description: "True if this is the answer to an earlier request with the same idempotency key.",
      }),
    }),
    " `errors` is empty if the request was accepted.",
  ),
  run: (input, engine, caller) =>
    engine.discoverNodes(caller, {
      addresses: input.addresses,
      ...chosenDriver(input.driver),
      cluster: input.cluster ? clusterChoice(input.cluster) : undefined,
      labels: given(input.labels),
      namePrefix: given(input.namePrefix),
      idempotencyKey: given(input.idempotencyKey),
      dryRun: input.dryRun,
      reason: given(input.reason),
    }),
});

// ---- reportPresence

const ReportedNodeInput = builder.inputType("ReportedNodeInput", {
  description: "Node in a presence report. Driver and labels are used only for nodes that are not registered yet.",
  fields: (t) => ({
    name: t.string({ required: true, description: "Name of the node; a new node is registered under it." }),
    driver: t.field({
      type: DriverSettingsInput,
      description: "Driver and its settings for a new node. Without it, an unknown node is not registered.",
    }),
    labels: t.field({ type: [LabelInput], description: "Labels of a new node." }),
  }),
});

const PresenceResultRef = builder.objectRef<PresenceAnswer>("PresenceResult").implement({
  description: "Result for one node of a report.",
  fields: (t) => ({
    ref: t.exposeString("ref", { description: "Name of the node in the report." }),
    node: nodeField(t, "The node after the report; null if it does not exist."),
    change: t.expose("change", {
      type: PresenceChangeEnum,
      nullable: true,
      description: "Effect of the report on the node; null if the report was refused for this node.",
    }),
    error: t.expose("refusal", {
      type: UserErrorRef,
      nullable: true,
      description:
        "Reason why the report was refused for this node: NOT_FOUND for an unknown node that disappeared, INVALID_INPUT for a discovered one that cannot be registered. Null if it was accepted.",
    }),
  }),
});

addMutation("reportPresence", {
  scope: "OPERATE",
  description:
    "Report that monitoring sees nodes, or does not see them any more. Changes their presence only: it starts no work, and it is accepted while runs are active. Registers an unknown node that was discovered, if a driver is given. Reporting the same again changes nothing.",
  input: builder.inputType("ReportPresenceInput", {
    description: "Presence report from monitoring.",
    fields: (t) => ({
      event: t.field({
        type: PresenceEventEnum,
        required: true,
        description: "Observation that applies to all the nodes.",
      }),
      nodes: t.field({ type: [ReportedNodeInput], required: true, description: "Nodes, at least one." }),
    }),
  }),
  argument: "Observation and nodes.",
  payload: payloadType<PresenceReported>("reportPresence", (t) => ({
    results: t.expose("results", {
      type: [PresenceResultRef],
      description: "One result per node, in the order of the report. A refused node does not affect the others.",
    }),
    ...refusalFields(
      t,
      "Reasons why the whole report was refused; empty if it was accepted, even if single nodes were refused.",
    ),
  })),
  run: (input, engine, caller) =>
    engine.reportPresence(
      caller,
      input.event,
      input.nodes.map(({ name, driver, labels }) => ({
        name,
        ...(driver && chosenDriver(driver)),
        labels: given(labels),
      })),
    ),
});
