/**
 * The parts of a task's arguments that are masked in what the agent reports: values of keys that name a secret, texts
 * of several lines such as user data, and tokens of the service in them.
 */
import { isSecretKey, userDataSecrets } from "../../drivers/secret-masking.ts";
import type { StoredJson } from "../../store/records.ts";

/** A secret of the service, as `newSecret` makes it; no part of a longer word, such as a checksum. */
const TOKEN = /(?<![\w-])[\w-]{43}(?![\w-])/g;

export function taskSecrets(args: StoredJson, key = ""): readonly string[] {
  if (typeof args === "string") {
    if (isSecretKey(key)) return [args];
    return [...(args.includes("\n") ? userDataSecrets(args) : []), ...(args.match(TOKEN) ?? [])];
  }
  if (Array.isArray(args)) return args.flatMap((member: StoredJson) => taskSecrets(member, key));
  if (args === null || typeof args !== "object") return [];
  return Object.entries(args).flatMap(([name, member]) => taskSecrets(member, name));
}
