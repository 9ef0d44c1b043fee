/** Artifacts that are built once, with the network of this machine, and kept: the image to install, and the agent. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { keepReporting } from "./lab/report.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const AGENT = join(ROOT, "packages/agent");
/** Not part of the repository; `npm ci` removes it. */
const CACHE = process.env["E2E_CACHE"] ?? join(ROOT, "node_modules/.cache/ostler-e2e");

export interface Artifacts {
  /** The image as it is on a disk. */
  readonly raw: string;
  readonly compressed: string;
  /** OSTLER_AGENT_DIR. */
  readonly agentFolder: string;
}

/** Builds what is missing. */
export async function prepare(options: { readonly rebuild: boolean }): Promise<Artifacts> {
  mkdirSync(CACHE, { recursive: true });
  const image = join(CACHE, "image");
  const agentFolder = join(CACHE, "agent");
  if (options.rebuild) for (const folder of [image, agentFolder]) rmSync(folder, { recursive: true, force: true });
  const artifacts = { raw: join(image, "debian.raw"), compressed: join(image, "debian.raw.zst"), agentFolder };
  if (!existsSync(artifacts.compressed)) {
    console.log(`The image of the machines: downloads 99 MB, and keeps 0.5 GB in ${image}.`);
    using _ = keepReporting("building the image");
    await run(imageScript(), [image]);
  }
  await buildAgent(agentFolder);
  return artifacts;
}

/** Again when its sources have changed. */
async function buildAgent(folder: string): Promise<void> {
  const stamp = join(folder, "sources.sha256");
  const sources = hashOfFiles(AGENT);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === sources) return;
  // A low level of compression: the ramdisk is read from this machine's disk, not through the port of a BMC.
  const words = [join(AGENT, "build/main.ts"), "--out", folder, "--work", join(CACHE, "agent-build"), "--level", "6"];
  const mirror = process.env["MIRROR"];
  const all = mirror === undefined ? words : [...words, "--mirror", mirror];
  console.log("The agent that the machines boot:");
  await run(process.execPath, all);
  writeFileSync(stamp, sources);
}

function hashOfFiles(folder: string): string {
  const hash = createHash("sha256");
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const file of files.map(({ parentPath, name }) => join(parentPath, name)).toSorted())
    hash.update(file).update(readFileSync(file));
  return hash.digest("hex");
}

const imageScript = () => fileURLToPath(new URL("image/build-image.sh", import.meta.url));

async function run(program: string, words: readonly string[]): Promise<void> {
  const child = spawn(program, [...words], { cwd: ROOT, stdio: "inherit" });
  const [status] = (await once(child, "close")) as [number | null];
  if (status !== 0) throw new Error(`${program} ended with exit code ${status}.`);
}
