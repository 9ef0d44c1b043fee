/** The commit that is built, without anything that it does not contain. */
import { globSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BuildError, run } from "../agent/build/programs.ts";
import { debianVersion } from "./names.ts";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SHOWN = 3;

export interface Commit {
  readonly id: string;
  /** Seconds since 1970: the time of every file of the release. */
  readonly epoch: string;
  readonly version: string;
}

function versionIn(manifest: string): string {
  return (JSON.parse(readFileSync(join(ROOT, manifest), "utf8")) as { version: string }).version;
}

export async function cleanCommit(): Promise<Commit> {
  const git = (...args: readonly string[]) => run("git", args, { cwd: ROOT });
  const changed = (await git("status", "--porcelain", "--untracked-files=all")).split("\n").filter(Boolean);
  if (changed.length > 0) {
    const names = changed.slice(0, SHOWN).map((line) => line.slice(3));
    const more = changed.length > SHOWN ? ` and ${changed.length - SHOWN} more` : "";
    throw new BuildError(
      `The checkout has changes that are in no commit: ${names.join(", ")}${more}. Commit or remove them.`,
    );
  }
  const version = versionIn("package.json");
  debianVersion(version);
  for (const manifest of globSync("packages/*/package.json", { cwd: ROOT }).toSorted())
    if (versionIn(manifest) !== version)
      throw new BuildError(`${manifest} has version ${versionIn(manifest)}, and package.json ${version}.`);
  const [id = "", epoch = ""] = (await git("log", "-1", "--format=%H %ct")).trim().split(" ");
  return { id, epoch, version };
}

/** Writes files of the commit below a folder. */
export async function exportFiles(folder: string, paths: readonly string[]): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const archive = `${folder}.tar`;
  await run("git", ["archive", "--output", archive, "HEAD", "--", ...paths], { cwd: ROOT });
  await run("tar", ["--extract", "--no-same-owner", "--file", archive, "--directory", folder]);
  await run("rm", [archive]);
}
