/**
 * Discovery of fake machines: one answers at every address but those that the settings name. The controller of a node is
 * the address at which it was found, so a second discovery knows it.
 */
import * as z from "zod";
import type { DiscoverCall, DiscoverInterface, DriverErrorKind } from "../../src/drivers/driver.ts";
import { passGate, pause, untilOrAborted } from "./gates.ts";
import { fakeSettings } from "./settings.ts";
import type { FakeSettings } from "./settings.ts";

const addresses = (what: string) => z.array(z.string().max(253)).max(4096).default([]).meta({ description: what });

const discoverSettings = z
  .strictObject({
    dead: addresses("Addresses at which nothing answers."),
    refusesLogin: addresses("Addresses at which the login is refused."),
    silent: addresses("Addresses at which a probe never ends by itself."),
    names: z
      .record(z.string().max(253), z.string().max(253))
      .default({})
      .meta({ description: "Names that machines tell, by address." }),
    delayMs: z.int().min(0).max(3_600_000).default(0).meta({ description: "How long a probe takes, in milliseconds." }),
    gate: z
      .string()
      .optional()
      .meta({ description: "Every probe waits at the gate of this name, which a test opens." }),
    password: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .meta({ writeOnly: true, description: "A secret, handed on to the nodes that are found." }),
  })
  .meta({ description: "Machines that are not there, at addresses." });

export interface FakeDiscoveryParts {
  /** Says that a probe began, or ended well. */
  note(entry: Record<string, unknown>): void;
  failure(message: string, kind: DriverErrorKind, retryable: boolean): Error;
}

export function fakeDiscovery({ note, failure }: FakeDiscoveryParts): DiscoverInterface<FakeSettings> {
  return {
    settings: discoverSettings,
    async probe(call: DiscoverCall) {
      const { address, signal } = call;
      const settings = discoverSettings.parse(call.settings);
      signal.throwIfAborted();
      note({ node: address, step: "discover.probe" });
      await call.timed("fake discover.probe", async () => {
        if (settings.gate !== undefined) await passGate(settings.gate, address, signal);
        if (settings.silent.includes(address)) await untilOrAborted(new Promise<void>(() => {}), signal);
        if (settings.delayMs > 0) await pause(settings.delayMs, signal);
      });
      if (settings.dead.includes(address))
        throw failure(`Nothing answers at ${address}; look at its power and its cable.`, "UNREACHABLE", true);
      if (settings.refusesLogin.includes(address))
        throw failure(`The BMC at ${address} refuses the login; try other credentials.`, "AUTHENTICATION", false);
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
