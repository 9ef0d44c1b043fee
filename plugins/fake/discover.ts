/**
 * Discovery of fake machines: one answers at every address except those listed in the settings. The controller of a
 * node is the address at which it was found, so a second discovery recognizes it.
 */
import { lazySchema } from "../lazy-schema.ts";
import type { Output } from "../lazy-schema.ts";
import type { DiscoverInterface } from "../../src/drivers/driver.ts";
import { FakeError } from "./error.ts";
import { passGate, pause, untilOrAborted } from "./gates.ts";
import type { Journal } from "./journal.ts";
import { fakeSettings } from "./settings.ts";
import type { FakeSettings } from "./settings.ts";

const addresses = lazySchema((z) => z.array(z.string().max(253)).max(4096).default([]));

const discoverSettings = lazySchema((z) =>
  z
    .strictObject({
      dead: addresses.zod.meta({ description: "Addresses at which nothing answers." }),
      refusesLogin: addresses.zod.meta({ description: "Addresses at which the login is refused." }),
      silent: addresses.zod.meta({ description: "Addresses at which a probe ends only with its signal." }),
      names: z
        .record(z.string().max(253), z.string().max(253))
        .default({})
        .meta({ description: "Names that machines report, by address." }),
      delayMs: z.int().min(0).max(3_600_000).default(0).meta({ description: "Duration of a probe, in milliseconds." }),
      gate: z
        .string()
        .optional()
        .meta({ description: "Every probe waits at the gate with this name, which a test opens." }),
      password: z
        .string()
        .min(1)
        .max(128)
        .optional()
        .meta({ writeOnly: true, description: "A secret, passed to the nodes that are found." }),
    })
    .meta({ description: "Simulated machines, by address." }),
);

export function fakeDiscovery(journal: Journal): DiscoverInterface<FakeSettings, Output<typeof discoverSettings>> {
  return {
    settings: discoverSettings,
    async probe(call) {
      const { address, signal, settings } = call;
      signal.throwIfAborted();
      journal({ node: address, step: "discover.probe" });
      await call.timed("fake discover.probe", async () => {
        if (settings.gate !== undefined) await passGate(settings.gate, address, signal);
        if (settings.silent.includes(address)) await untilOrAborted(new Promise<void>(() => {}), signal);
        if (settings.delayMs > 0) await pause(settings.delayMs, signal);
      });
      if (settings.dead.includes(address))
        throw new FakeError(`Nothing answers at ${address}; check its power and its cable.`, "UNREACHABLE", true);
      if (settings.refusesLogin.includes(address))
        throw new FakeError(`The BMC at ${address} refuses the login; try other credentials.`, "AUTHENTICATION", false);
      const name = settings.names[address];
      return {
        settings: fakeSettings.parse({
          controller: address,
          ...(settings.password !== undefined && { password: settings.password }),
        }),
        ...(name !== undefined && { name }),
      };
    },
  };
}
