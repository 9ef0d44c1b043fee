/** Reading what machines report about themselves: firmware, BIOS settings, boot device and serial console. */
import { DRIVER_BOOT_DEVICE, MACHINE_FACTS } from "../../../engine/views.ts";
import type { BiosAttribute, BootOverride, FirmwareComponent } from "../../../drivers/driver.ts";
import type {
  MachineAnswer,
  MachineAnswers,
  MachineFact,
  MachineFacts,
  MachineReading,
} from "../../../engine/power/machine-reader.ts";
import { BOOT_DEVICES } from "../../../lifecycle/verbs.ts";
import type { BootDeviceName } from "../../../lifecycle/verbs.ts";
import type { StoredJson } from "../../../store/records.ts";
import { builder, enumValues } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import { BootDeviceEnum, BootModeEnum, FailureKindEnum } from "../../base/enums.ts";
import { UserErrorRef } from "../../base/errors.ts";
import { nodeFields, payloadType, refusalFields } from "../../base/payload.ts";
import { NodeSelectorInput, nodeSelector } from "../selectors.ts";
import { DriverCallRef } from "../work/step.ts";

const MachineFactEnum = builder.enumType("MachineFact", {
  description: "What can be read of a machine. New values may be added.",
  values: enumValues(MACHINE_FACTS),
});

const BiosAttributeTypeEnum = builder.enumType("BiosAttributeType", {
  description: "How the value of a BIOS attribute is written.",
  values: enumValues({
    STRING: "A text.",
    INTEGER: "A whole number.",
    BOOLEAN: "True or false.",
    ENUMERATION: "One of `allowedValues`.",
    PASSWORD: "A secret, whose value is never returned.",
  }),
});

const FirmwareComponentRef = builder.objectRef<FirmwareComponent>("FirmwareComponent").implement({
  description: "Component of a machine that has firmware.",
  fields: (t) => ({
    component: t.exposeString("id", { description: "Identifies the component on this machine, also after an update." }),
    name: t.exposeString("name", { description: "Name of the component, for people." }),
    version: t.exposeString("version", {
      nullable: true,
      description: "Version as the machine reports it; null if it reports none.",
    }),
    updateable: t.exposeBoolean("updateable", {
      nullable: true,
      description: "Whether the machine accepts an update; null if it does not report that.",
    }),
  }),
});

const BiosAttributeRef = builder.objectRef<BiosAttribute>("BiosAttribute").implement({
  description: "BIOS attribute of a machine.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Name by which the machine knows the attribute." }),
    title: t.exposeString("title", {
      nullable: true,
      description: "Title for people; null if the machine reports none.",
    }),
    type: t.expose("type", { type: BiosAttributeTypeEnum, description: "Type of the value." }),
    value: t.field({
      type: "JSON",
      nullable: true,
      description: "Present value: a text, a number, true or false. Null for a PASSWORD, and if it has none.",
      resolve: ({ value }) => value as StoredJson,
    }),
    pending: t.field({
      type: "JSON",
      nullable: true,
      description: "Value after the next start; null if it stays.",
      resolve: ({ pending }) => (pending ?? null) as StoredJson,
    }),
    allowedValues: t.stringList({
      description: "Values that an ENUMERATION can have; empty if the machine does not report them.",
      resolve: ({ allowedValues = [] }) => allowedValues,
    }),
    minimum: t.exposeFloat("minimum", {
      nullable: true,
      description: "Smallest value of an INTEGER; null if the machine reports none.",
    }),
    maximum: t.exposeFloat("maximum", {
      nullable: true,
      description: "Largest value of an INTEGER; null if the machine reports none.",
    }),
    readOnly: t.exposeBoolean("readOnly", { description: "Whether the machine refuses changes." }),
  }),
});

const NAMES = Object.keys(BOOT_DEVICES) as BootDeviceName[];

const BootSettingRef = builder.objectRef<BootOverride>("BootSetting").implement({
  description: "Boot device that a machine reports as set.",
  fields: (t) => ({
    device: t.field({
      type: BootDeviceEnum,
      nullable: true,
      description: "Device; null if none is set, so that the machine follows its own boot order.",
      resolve: ({ device }) => NAMES.find((name) => DRIVER_BOOT_DEVICE[name] === device) ?? null,
    }),
    persistent: t.exposeBoolean("persistent", {
      description: "Whether all later starts use the device. Otherwise only the next one does.",
    }),
    mode: t.expose("mode", {
      type: BootModeEnum,
      nullable: true,
      description: "How the firmware starts the device; null if the machine does not report that.",
    }),
  }),
});

const MachineReadingRef = builder.objectRef<MachineReading>("MachineReading").implement({
  description: "Result of reading one thing of a node. The value is in the field of `NodeReading` for it.",
  fields: (t) => ({
    what: t.expose("what", { type: MachineFactEnum, description: "What was read." }),
    driver: t.exposeString("driver", { nullable: true, description: "Driver that answered; null if none did." }),
    error: t.expose("refusal", {
      type: UserErrorRef,
      nullable: true,
      description:
        "Reason why it could not be read: UNSUPPORTED_BY_DRIVER if no driver of the node or not its machine can, TIMEOUT or BACKEND_FAILED. Null if it was read.",
    }),
    kind: t.expose("kind", {
      type: FailureKindEnum,
      nullable: true,
      description: "Cause of the failure as the driver classified it; null if it was read.",
    }),
    driverCalls: t.expose("driverCalls", {
      type: [DriverCallRef],
      description: "Calls of the drivers, if the node names several for the interface. Empty if it names one.",
    }),
  }),
});

function valueOf<Fact extends MachineFact>({ readings }: MachineAnswer, fact: Fact): MachineFacts[Fact] | null {
  return (readings.find(({ what }) => what === fact)?.value ?? null) as MachineFacts[Fact] | null;
}

const NodeReadingRef = builder.objectRef<MachineAnswer>("NodeReading").implement({
  description: "What was read of one node. A field is null if it was not requested or could not be read.",
  fields: (t) => ({
    ...nodeFields(t, "The node; null if it has been deleted."),
    firmware: t.field({
      type: [FirmwareComponentRef],
      nullable: true,
      description: "Components with firmware, at most 1000; null if they were not requested or could not be read.",
      resolve: (answer) => valueOf(answer, "FIRMWARE"),
    }),
    bios: t.field({
      type: [BiosAttributeRef],
      nullable: true,
      description: "BIOS attributes, at most 5000; null if they were not requested or could not be read.",
      resolve: (answer) => valueOf(answer, "BIOS"),
    }),
    bootDevice: t.field({
      type: BootSettingRef,
      nullable: true,
      description: "Boot device that is set.",
      resolve: (answer) => valueOf(answer, "BOOT_DEVICE"),
    }),
    consoleUrl: t.string({
      nullable: true,
      description: "Address of the serial console, without credentials.",
      resolve: (answer) => valueOf(answer, "CONSOLE"),
    }),
    readings: t.expose("readings", {
      type: [MachineReadingRef],
      description: "Result of each read, in the order of the request, with the driver that answered.",
    }),
    error: t.expose("refusal", {
      type: UserErrorRef,
      nullable: true,
      description: "Reason why nothing, or not everything, was tried: BUSY, NOT_FOUND or UNSUPPORTED_BY_DRIVER.",
    }),
  }),
});

addMutation("readNodes", {
  scope: "OPERATE",
  description:
    "Read firmware versions, BIOS settings, the boot device or the address of the serial console from machines now, and wait for the answers, at most 30 seconds. Nothing is stored. A node with an active run is BUSY.",
  input: builder.inputType("ReadNodesInput", {
    description: "Nodes, and what to read of them.",
    fields: (t) => ({
      nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of at most 100 nodes." }),
      what: t.field({ type: [MachineFactEnum], required: true, description: "What to read, at least one." }),
    }),
  }),
  argument: "Nodes, and what to read.",
  payload: payloadType<MachineAnswers>(
    "readNodes",
    (t) => ({
      results: t.expose("answers", {
        type: [NodeReadingRef],
        description: "One result per node, in the order of the request.",
      }),
      ...refusalFields(t, "Reasons why the whole request was refused."),
    }),
    " `errors` is empty if the request was accepted.",
  ),
  run: (input, engine) => engine.readNodes({ nodes: nodeSelector(input.nodes), what: input.what }),
});
