/** The service on this host for the commands of packages/cli, if the environment has its settings. */
import { Agent, Pool, setGlobalDispatcher } from "undici";
import { readConfig } from "../config/config.ts";
import { ConfigError } from "../config/values.ts";
import { endpointOf } from "./graphql-request.ts";

/** Returns its address, at which its certificate is trusted from then on; null: the settings are not of a service. */
export function ownService(environment: NodeJS.ProcessEnv): string | null {
  try {
    const { url, connect } = endpointOf(readConfig(environment, []), undefined);
    if (connect !== undefined) trustAt(new URL(url).origin, connect);
    return url;
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

function trustAt(origin: string, connect: NonNullable<Pool.Options["connect"]>): void {
  const factory = (to: string | URL, options: object) =>
    new Pool(to, String(to) === origin ? { ...options, connect } : options);
  setGlobalDispatcher(new Agent({ factory }));
}
