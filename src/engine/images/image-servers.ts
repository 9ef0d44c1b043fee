/** Servers of files: callers may name those of registered images. */
import type { AddressRules } from "../../drivers/address-settings.ts";
import type { Registry } from "../../drivers/registry.ts";
import { serverName } from "../../runtime/file-servers.ts";
import { imageOrigins } from "../../store/images.ts";
import type { Reader } from "../../store/postgres/database.ts";

/** The rules for addresses in a request. The images are read if the answer depends on them. */
export function addressRules(reader: Reader, { networks, files }: Registry): AddressRules {
  let found: Promise<readonly string[]> | undefined;
  return { networks, files, images: () => (found ??= imageServers(reader)) };
}

/** The servers of registered images among those of the URLs, as far as the registry needs to know them. */
export async function imageServersOf(
  reader: Reader,
  { files }: Registry,
  urls: readonly string[],
): Promise<readonly string[]> {
  if (!files || urls.every((url) => files.problem(url, []) === null)) return [];
  const named = new Set(urls.flatMap((url) => serverName(url) ?? []));
  return (await imageServers(reader)).filter((name) => named.has(name));
}

async function imageServers(reader: Reader): Promise<readonly string[]> {
  return (await imageOrigins(reader)).flatMap((origin) => serverName(origin) ?? []);
}
