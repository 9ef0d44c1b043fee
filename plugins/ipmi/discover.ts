/**
 * Discovery of BMCs. A presence check without a login comes first: a dead address then costs seconds, not the minute
 * that failing logins take. Then one command is sent in a session with the given credentials.
 */
import { lazySchema } from "../lazy-schema.ts";
import type { Output } from "../lazy-schema.ts";
import type { DiscoverCall, DiscoverInterface } from "../../src/drivers/driver.ts";
import { IpmiError } from "./failure.ts";
import { addressOf } from "./ipmitool.ts";
import type { Ipmitool } from "./ipmitool.ts";
import { PRESENCE_MILLISECONDS, bmcAnswers } from "./presence.ts";
import { bmcName } from "../bmc-settings.ts";
import { ipmiSettings } from "./settings.ts";
import type { IpmiSettings } from "./settings.ts";

const discoverSettings = lazySchema((z) => {
  const { cipherSuite, ...rest } = ipmiSettings.zod.omit({ address: true }).shape;
  return z
    .strictObject({
      ...rest,
      cipherSuite: cipherSuite
        .unwrap()
        .optional()
        .meta({ description: "IPMI cipher suite, 17 or 3. Absent: 17, or 3 if the BMC does not accept 17." }),
    })
    .meta({ description: "Login at BMCs: the settings of a node without the address." });
});

type Login = Output<typeof discoverSettings>;

export function ipmiDiscovery(ipmitool: Ipmitool): DiscoverInterface<IpmiSettings, Login> {
  return {
    settings: discoverSettings,
    async probe(call) {
      call.signal.throwIfAborted();
      const { cipherSuite: requested, ...login } = call.settings;
      const at = (cipherSuite: 3 | 17): IpmiSettings => ({ ...login, cipherSuite, address: call.address });
      await requirePresence(call, at(requested ?? 17));
      const [first, second] = requested === undefined ? ([17, 3] as const) : [requested];
      const settings = await logIn(ipmitool, call, at(first)).catch((error: unknown) => {
        if (second === undefined || !(error instanceof IpmiError) || error.kind !== "REFUSED" || error.retryable)
          throw error;
        return logIn(ipmitool, call, at(second));
      });
      return { settings };
    },
  };
}

async function requirePresence(call: DiscoverCall<Login>, settings: IpmiSettings): Promise<void> {
  const { port, replySeconds } = settings;
  const { signal } = call;
  const address = addressOf({ ...call, settings });
  if (await bmcAnswers({ address, port, milliseconds: Math.max(PRESENCE_MILLISECONDS, replySeconds * 1000), signal }))
    return;
  signal.throwIfAborted();
  throw new IpmiError({
    kind: "UNREACHABLE",
    retryable: true,
    message: `Nothing answers in IPMI at ${bmcName(settings)}; check the address, the BMC's power and its network.`,
  });
}

async function logIn(ipmitool: Ipmitool, call: DiscoverCall<Login>, settings: IpmiSettings): Promise<IpmiSettings> {
  await ipmitool.run(
    { ...call, settings },
    { task: "report its power", words: ["chassis", "power", "status"], expect: /./ },
  );
  return settings;
}
