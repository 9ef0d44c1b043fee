/** Simulated Redfish BMCs: `startBmc` for one, `startFleet` for many. */
export { startBmc, startFleet, CREDENTIALS } from "./start.ts";
export type { BmcSettings, Credentials, Fleet, FleetSettings, SimulatedBmc } from "./start.ts";
export { PRESETS, PRESET_NAMES } from "./traits.ts";
export type { PresetName, QuirkName, Traits } from "./traits.ts";
export { QUIRKS } from "./quirks.ts";
export type { Fault, Faults } from "./faults.ts";
export type { BmcState, Timing } from "./bmc.ts";
export type { Machine } from "./machine.ts";
export { qemuMachine } from "./qemu.ts";
export type { QemuMachine, QemuSettings } from "./qemu.ts";
export { OVMF, qemuDrive } from "./qemu-arguments.ts";
export { qmp } from "./qmp.ts";
export { identityOf } from "./hardware.ts";
export type { SystemIdentity } from "./hardware.ts";
