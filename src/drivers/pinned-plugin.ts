/** Plugins that are pinned to the content of their module, as `./pdu.js#sha512-…`. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Splits a word of OSTLER_PLUGINS. The hash is null if the plugin is not pinned. */
export function parsePin(word: string): { readonly plugin: string; readonly hash: string | null } {
  const [, plugin = word, hash = null] = /^(.+)#(sha512-[A-Za-z0-9+/]{86}==)$/.exec(word) ?? [];
  return { plugin, hash };
}

/** Throws if the module's file does not have the hash. `url`: the file URL of the module. */
export function verifyPin(url: string, hash: string | null): void {
  if (hash === null) return;
  const found = `sha512-${createHash("sha512")
    .update(readFileSync(fileURLToPath(url)))
    .digest("base64")}`;
  if (found !== hash) throw new Error(`its file ${fileURLToPath(url)} has the hash ${found}, not ${hash}`);
}
