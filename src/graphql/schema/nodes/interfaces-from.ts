/** Inputs of the interfaces that a node takes from other drivers than its own. */
import type { BorrowedInterfaces } from "../../../engine/inventory/node-settings.ts";
import { builder, given } from "../../base/builder.ts";
import type { InputFields } from "../../base/builder.ts";
import { DriverInterfaceEnum } from "../../base/enums.ts";
import { DriverSettingsChangeInput, DriverSettingsInput, chosenDriver } from "../fleet/driver-settings.ts";

/** Which interfaces are taken. */
const takenFields = (t: InputFields) => ({
  kinds: t.field({
    type: [DriverInterfaceEnum],
    required: true,
    defaultValue: [],
    description:
      "Interfaces to take. Several drivers can provide DEPLOY, as where one installs a system that another configures: the steps of all are performed, by priority.",
  }),
  fallbackFor: t.field({
    type: [DriverInterfaceEnum],
    description:
      "Interfaces for which the driver is tried after the one that provides it, in the order of the list: when that does not answer or lacks the ability, not when the machine refuses. POWER, MEDIA, FIRMWARE, BIOS and CONSOLE.",
  }),
});

export const InterfacesFromInput = builder.inputType("InterfacesFromInput", {
  description: "Interfaces that a node takes from another driver than its own.",
  fields: (t) => ({
    ...takenFields(t),
    driver: t.field({
      type: DriverSettingsInput,
      required: true,
      description: "Driver that provides them, with the node's settings for it.",
    }),
  }),
});

export const InterfacesFromChangeInput = builder.inputType("InterfacesFromChangeInput", {
  description: "Interfaces that a node takes from another driver than its own from now on.",
  fields: (t) => ({
    ...takenFields(t),
    driver: t.field({
      type: DriverSettingsChangeInput,
      required: true,
      description:
        "Driver that provides them, with changes to the node's settings for it. If the node has no settings for it yet, these are all its settings.",
    }),
  }),
});

export function interfacesOf(
  taken: readonly (typeof InterfacesFromInput.$inferInput)[] | null | undefined,
): BorrowedInterfaces[] | undefined {
  return taken?.map(({ kinds, fallbackFor, driver }) => ({
    kinds,
    fallbackFor: given(fallbackFor),
    ...chosenDriver(driver),
  }));
}
