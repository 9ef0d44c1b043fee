/** Discovery: logs in to the system at an address, and asks it what it is. */
import type { DiscoverInterface } from "../../src/drivers/driver.ts";
import { discoverSettings } from "./settings.ts";
import type { AnsibleSettings, Login } from "./settings.ts";
import { logIn } from "./ssh.ts";

export const ansibleDiscovery: DiscoverInterface<AnsibleSettings, Login> = {
  settings: discoverSettings,
  async probe(call) {
    const settings: AnsibleSettings = { ...call.settings, address: call.address };
    const { hostKeys, ...machine } = await logIn({ ...call, settings }, null);
    // From now on only the host key that was accepted here is known, on every replica.
    return { settings: { ...settings, ...(hostKeys.length > 0 && { hostKeys: [...hostKeys] }) }, ...machine };
  },
};
