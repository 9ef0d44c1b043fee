/** Folders of embedded databases, for tests of its starts. */
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import postgres from "postgres";
import type { Sql } from "postgres";
import { afterAll } from "vitest";
import type { Connection } from "../../src/store/postgres/database.ts";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { createDataFolder } from "./data-folder.ts";

/** Functions that make folders; all are removed when the test file ends. */
export function embeddedFolders() {
  const folders: string[] = [];
  const aFolder = () => {
    const folder = createDataFolder();
    folders.push(folder);
    return folder;
  };
  let initial: string | undefined;
  /** A folder whose database has been started before: a copy, which costs a tenth of initdb. */
  async function initialized(): Promise<string> {
    if (initial === undefined) {
      initial = aFolder();
      await (await startEmbedded({ folder: initial, durable: false }))[Symbol.asyncDispose]();
    }
    const folder = aFolder();
    const copied = spawnSync("cp", ["-a", `${initial}/.`, folder], { encoding: "utf8" });
    if (copied.status !== 0) throw new Error(`The data folder could not be copied: ${copied.stderr}`);
    return folder;
  }
  afterAll(() => {
    // Each is a database, and its files were synchronized.
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  }, 120_000);
  return { aFolder, initialized, alsoRemove: (folder: string) => void folders.push(folder) };
}

export function connectToEmbedded(connection: Connection): Sql {
  if ("url" in connection) throw new Error("The embedded database is reached by its socket.");
  return postgres({ ...connection, max: 1, onnotice: () => {} });
}
