/** Artifacts that are built once, with the network of this machine, and kept: the image to install, and the agent. */
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { keepReporting } from "./lab/report.ts";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const AGENT = join(ROOT, "packages/agent");
/** Not part of the repository; `npm ci` removes it. */
const CACHE = process.env["E2E_CACHE"] ?? join(ROOT, "node_modules/.cache/ostler-e2e");

interface PrepareOptions {
  readonly rebuild?: boolean;
  readonly release?: string | undefined;
}

export interface Artifacts {
  /** The image as it is on a disk. */
  readonly raw: string;
  readonly compressed: string;
  /** Of the service; null for the checkout. */
  readonly package: string | null;
  /** OSTLER_AGENT_DIR. */
  readonly agentFolder: string;
}

/** Builds what is missing. `release`: folder of a release, whose package and boot media are used. */
export async function prepare({ rebuild = false, release }: PrepareOptions): Promise<Artifacts> {
  mkdirSync(CACHE, { recursive: true });
  const image = join(CACHE, "image");
  const agentFolder = release === undefined ? join(CACHE, "agent") : join(resolve(release), "agent");
  if (rebuild) for (const folder of [image, join(CACHE, "agent")]) rmSync(folder, { recursive: true, force: true });
  const artifacts = {
    raw: join(image, "debian.raw"),
    compressed: join(image, "debian.raw.zst"),
    package: release === undefined ? null : packageIn(resolve(release)),
    agentFolder,
  };
  if (!existsSync(artifacts.compressed)) {
    console.log(`The image of the machines: downloads 99 MB, and keeps 0.5 GB in ${image}.`);
    using _ = keepReporting("building the image");
    await run(imageScript(), [image]);
  }
  if (release === undefined) await buildAgent(agentFolder);
  return artifacts;
}

function packageIn(release: string): string {
  const [file] = globSync(join(release, "ostler_*_amd64.deb"));
  if (file === undefined) throw new Error(`There is no package ostler_*_amd64.deb in ${release}.`);
  return file;
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
