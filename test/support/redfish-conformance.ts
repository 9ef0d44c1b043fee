/** The conformance suite for the driver `redfish` on a simulated BMC. */
import { expect, test } from "vitest";
import createRedfish from "../../plugins/redfish/index.ts";
import type { ConformanceOptions } from "../../packages/driver/src/conformance/conformance.ts";
import { conformance } from "../../packages/driver/src/conformance/conformance.ts";
import type { PresetName } from "../../packages/bmc-simulator/src/index.ts";
import { PRESETS, startBmc } from "../../packages/bmc-simulator/src/index.ts";

const TIMING = { powerOnMs: 50, powerOffMs: 50, shutdownMs: 50, bootMs: 50, taskMs: 100, restartMs: 300 };

async function options(traits: PresetName): Promise<ConformanceOptions> {
  const bmc = await startBmc({ traits, timing: TIMING });
  const storage = { ...PRESETS[traits].storage, collection: "empty" as const };
  const bare = await startBmc({ traits: { ...PRESETS[traits], storage }, timing: TIMING });
  const { hostname, port } = new URL(bmc.url);
  const { userName: username, password } = bmc.credentials;
  const login = { port: Number(port), scheme: "HTTP", username, password };
  const refused = { ...login, password: "wrong-canary-password" };
  return {
    factory: createRedfish,
    settings: { ...login, address: hostname, nextPassword: "another-password" },
    live: true,
    refused: { ...refused, address: hostname },
    driveless: { ...login, address: hostname, port: Number(new URL(bare.url).port) },
    liveSeconds: 30,
    steps: [
      { interface: "clean", step: "clear_logs" },
      { interface: "clean", step: "reset_raid" },
      { interface: "clean", step: "apply_bios_settings", args: { settings: { FanPwmOffset: 10 } } },
    ],
    discovery: { address: hostname, settings: login, refused, dead: "127.0.0.9" },
  };
}

/** Declares the checks of the suite as tests. */
export async function declareRedfishConformance(kind: PresetName): Promise<void> {
  const checks = conformance(await options(kind));
  test.each(checks)(
    `driver redfish, ${kind}: $title`,
    async (check) => expect(check.run()).resolves.toBeUndefined(),
    120_000,
  );
}
