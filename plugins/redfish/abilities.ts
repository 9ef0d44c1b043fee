/** Which of the driver's abilities a machine offers, by what it reports about itself. */
import type { Ability, PowerAction } from "../../src/drivers/driver.ts";
import { findBios } from "./bios.ts";
import { serialUrl } from "./console.ts";
import { secureErasable } from "./clean/drives.ts";
import { RedfishError } from "./error.ts";
import { readFirmware } from "./firmware.ts";
import { opticalDrives } from "./media.ts";
import { offersPower } from "./power.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { findSystem } from "./system.ts";

export async function abilitiesOf(service: RedfishService, settings: RedfishSettings): Promise<Ability[]> {
  const system = await findSystem(service, settings);
  const power = await offersPower(service, system);
  const checks: readonly (readonly [string, () => Promise<unknown>])[] = [
    ["media", () => opticalDrives(service, settings)],
    ["firmware", () => readFirmware(service)],
    ["bios", () => findBios(service, settings)],
    ["console", () => serialUrl(service, settings)],
    ["clean.secure_erase", () => secureErasable(service, settings)],
  ];
  const offered = await Promise.all(checks.map(([name, check]) => abilityOf(name, check)));
  return [
    ...(Object.keys(power) as PowerAction[]).map((name) => ({ name: `power.${name}`, works: power[name] })),
    ...offered,
  ];
}

async function abilityOf(name: string, check: () => Promise<unknown>): Promise<Ability> {
  try {
    await check();
    return { name, works: true };
  } catch (error) {
    // A machine that does not answer, or refuses the login, has reported nothing about its abilities.
    const isAnswer = error instanceof RedfishError && (error.kind === "UNSUPPORTED" || error.kind === "REFUSED");
    if (isAnswer) return { name, works: false, reason: error.message };
    throw error;
  }
}
