/** The checksums of a release, and their signature. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BuildError } from "../agent/build/programs.ts";

const SUMS = "SHA256SUMS";
const UNSIGNED =
  "This release has no signature: it was built without a key. SHA256SUMS detects damage of its files, and no forgery.\n";

export function sha256Of(file: string): string {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

/** Of all files that are in the folder. */
export function writeSums(folder: string): void {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
    statSync(join(folder, path)).isFile(),
  );
  writeFileSync(
    join(folder, SUMS),
    files
      .toSorted()
      .map((path) => `${sha256Of(join(folder, path))}  ${path}\n`)
      .join(""),
  );
}

/** minisign asks on the terminal for the password of a key that has one. */
export function sign(folder: string, version: string, key: string | null): void {
  if (key === null) return writeFileSync(join(folder, "UNSIGNED"), UNSIGNED);
  // The default comment has the time.
  const comment = ["-c", "signature of a release of Ostler", "-t", `ostler ${version}`];
  const { status } = spawnSync("minisign", ["-S", "-s", key, "-m", join(folder, SUMS), ...comment], {
    stdio: ["inherit", 2, 2],
  });
  if (status !== 0) throw new BuildError(`minisign has not signed ${SUMS} with the key ${key}.`);
}
