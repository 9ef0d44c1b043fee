/** Log-ins to installed machines. */
import { join } from "node:path";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { run } from "./commands.ts";

export interface KeyPair {
  readonly file: string;
  readonly publicKey: string;
}

/** Of the image. */
export const USER = "debian";
const CONNECT_SECONDS = 10;
const COMMAND_MS = 60_000;

export async function createKey(folder: string): Promise<KeyPair> {
  const file = join(folder, "id_ed25519");
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "e2e", "-f", file]);
  return { file, publicKey: readFileSync(`${file}.pub`, "utf8").trim() };
}

/** Words of the command line that logs in. */
export const sshWords = (key: string, address: string): readonly string[] => [
  "-i",
  key,
  "-o",
  "BatchMode=yes",
  "-o",
  "IdentitiesOnly=yes",
  "-o",
  "StrictHostKeyChecking=no",
  "-o",
  "UserKnownHostsFile=/dev/null",
  "-o",
  "LogLevel=ERROR",
  "-o",
  `ConnectTimeout=${CONNECT_SECONDS}`,
  `${USER}@${address}`,
];

/** Output of a command on the machine; tries for the given time. */
export async function overSsh(key: KeyPair, address: string, command: string, withinMs = 60_000): Promise<string> {
  const until = Date.now() + withinMs;
  for (;;) {
    try {
      return await run("ssh", [...sshWords(key.file, address), command], COMMAND_MS);
    } catch (error) {
      if (Date.now() > until) throw error;
      await delay(1_000);
    }
  }
}
