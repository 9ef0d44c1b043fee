/** Probes of addresses on request: which drivers reach a machine there, and what they can do with it. */
import type { Ability } from "../../../drivers/driver.ts";
import { PROBED_ADDRESSES_MAX, PROBING_DRIVERS_MAX } from "../../../engine/views.ts";
import type { FoundMachine, ProbeAnswer, ProbeAnswers } from "../../../engine/discovery/node-probes.ts";
import { builder } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import { FailureKindEnum } from "../../base/enums.ts";
import { UserErrorRef } from "../../base/errors.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { DriverRef } from "../../base/refs.ts";
import { nodeField } from "../../base/shared-fields.ts";
import { DiscoverySettingsInput, DriverSettingsRef, chosenDriver, visibleSettings } from "../fleet/driver-settings.ts";

const MachineAbilityRef = builder.objectRef<Ability>("MachineAbility").implement({
  description: "Ability of a driver on a machine.",
  fields: (t) => ({
    name: t.exposeString("name", {
      description:
        "Interface (`media`), function (`power.setBootDevice`), power action (`power.SOFT_OFF`) or step (`clean.secure_erase`).",
    }),
    works: t.exposeBoolean("works", {
      description: "Whether it works on the machine. True also for what the driver declares and did not check.",
    }),
    reason: t.exposeString("reason", {
      nullable: true,
      description: "Reason why it does not work; null if it works or the driver gives none.",
    }),
  }),
});

const FoundMachineRef = builder.objectRef<FoundMachine & Pick<ProbeAnswer, "driver">>("FoundMachine").implement({
  description: "Machine that answered a driver.",
  fields: (t) => ({
    name: t.exposeString("name", {
      description: "Name that the machine reports, or its address; discoverNodes gives it to a new node.",
    }),
    settings: t.field({
      type: DriverSettingsRef,
      nullable: true,
      description: "Settings of a node for this machine, without secrets.",
      resolve: ({ driver, settings }) => visibleSettings(driver, settings),
    }),
    controller: t.exposeString("controller", {
      nullable: true,
      description: "Identity of the management controller; null if the driver does not report one.",
    }),
    node: nodeField(t, "Node that is registered for this machine with the driver; null if there is none."),
    abilities: t.field({
      type: [MachineAbilityRef],
      description: "What the driver can do with the machine; empty if that could not be read, see `abilitiesError`.",
      resolve: ({ abilities }) => abilities ?? [],
    }),
    abilitiesError: t.expose("abilitiesRefusal", {
      type: UserErrorRef,
      nullable: true,
      description: "Reason why the abilities could not be read; null if they were.",
    }),
  }),
});

const ProbeResultRef = builder.objectRef<ProbeAnswer>("ProbeResult").implement({
  description: "Result of one driver at one address. Either `machine` or `error` is set.",
  fields: (t) => ({
    address: t.exposeString("address", { description: "Host name or IP address." }),
    driver: t.expose("driver", { type: DriverRef, description: "Driver that was tried." }),
    machine: t.field({
      type: FoundMachineRef,
      nullable: true,
      description: "Machine that answered; null if none did.",
      resolve: ({ driver, found }) => found && { ...found, driver },
    }),
    error: t.expose("refusal", {
      type: UserErrorRef,
      nullable: true,
      description:
        "Reason why there is no machine: TIMEOUT, BACKEND_FAILED, or INVALID_INPUT if the driver needs settings. Null if one answered.",
    }),
    kind: t.expose("kind", {
      type: FailureKindEnum,
      nullable: true,
      description: "Cause of the failure as the driver classified it; null if a machine answered.",
    }),
  }),
});

addMutation("probeNodes", {
  scope: "MANAGE",
  description:
    "Try drivers at addresses now and wait for the answers, at most 30 seconds: which drivers reach a machine there, the settings of a node for it, whether it is registered, and what each driver can do with it. Registers and stores nothing.",
  input: builder.inputType("ProbeNodesInput", {
    description: "Addresses, and the drivers to try there.",
    fields: (t) => ({
      addresses: t.stringList({
        required: true,
        description: `Host names, IP addresses and CIDR ranges as in discoverNodes, at most ${PROBED_ADDRESSES_MAX} addresses in total.`,
      }),
      drivers: t.field({
        type: [DiscoverySettingsInput],
        description: `Drivers with the settings of their discovery, usually the credentials, at most ${PROBING_DRIVERS_MAX}. A driver can be named several times, with different credentials. Without it, each loaded driver that can discover is tried with its defaults. Secrets are not stored.`,
      }),
    }),
  }),
  argument: "Addresses and drivers.",
  payload: payloadType<ProbeAnswers>(
    "probeNodes",
    (t) => ({
      results: t.expose("answers", {
        type: [ProbeResultRef],
        description: "One result for each address and driver, in the order of the request.",
      }),
      ...refusalFields(t, "Every reason why the request was refused; empty if it was accepted."),
    }),
    " `errors` is empty if the request was accepted.",
  ),
  run: (input, engine) => engine.probeNodes({ addresses: input.addresses, drivers: input.drivers?.map(chosenDriver) }),
});
