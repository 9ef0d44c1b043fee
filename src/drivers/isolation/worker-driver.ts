/** In a worker: loads the plugin and makes its driver. */
import type { DriverFactory, PluginHost } from "../driver.ts";
import type { AnyDriver } from "../interfaces.ts";
import type { WorkerOptions } from "./launch.ts";

/** A module that only some drivers need is loaded for these: each costs CPU at every start. */
export async function loadDriver(
  module: string,
  { hash, egress }: WorkerOptions,
  host: PluginHost,
): Promise<AnyDriver> {
  if (hash !== null) (await import("../pinned-plugin.ts")).verifyPin(module, hash);
  // Loaded before the plugin, which may change what it imports.
  const limit = egress && (await limitOf(egress));
  const { default: factory } = (await import(module)) as { readonly default: DriverFactory<unknown> };
  const made = await factory(host);
  return limit ? limit(made) : made;
}

async function limitOf({
  listed,
  files,
  marked,
}: NonNullable<WorkerOptions["egress"]>): Promise<(driver: AnyDriver) => AnyDriver> {
  const [{ limitEgress }, { ipNetworks }, { fileServers }, { pinLookups }] = await Promise.all([
    import("../egress.ts"),
    import("../../runtime/ip-networks.ts"),
    import("../../runtime/file-servers.ts"),
    import("./pinned-lookups.ts"),
  ]);
  const limits = { networks: ipNetworks(listed), files: fileServers(files.listed, files.own), marked };
  return (unlimited) => limitEgress(unlimited, limits, pinLookups());
}
