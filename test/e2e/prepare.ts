/** Artifacts that are built once, with the network of this machine, and kept: the image to install, and the agent. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

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
export function prepare(options: { readonly rebuild: boolean }): Artifacts {
  mkdirSync(CACHE, { recursive: true });
  const image = join(CACHE, "image");
  const agentFolder = join(CACHE, "agent");
  if (options.rebuild) for (const folder of [image, agentFolder]) rmSync(folder, { recursive: true, force: true });
  const artifacts = { raw: join(image, "debian.raw"), compressed: join(image, "debian.raw.zst"), agentFolder };
  if (!existsSync(artifacts.compressed)) build("the image (about two minutes)", imageScript(), [image]);
  buildAgent(agentFolder);
  return artifacts;
}

/** Again when its sources have changed. */
function buildAgent(folder: string): void {
  const stamp = join(folder, "sources.sha256");
  const sources = hashOfFiles(AGENT);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === sources) return;
  // A low level of compression: the ramdisk is read from this machine's disk, not through the port of a BMC.
  const words = [join(AGENT, "build/main.ts"), "--out", folder, "--work", join(CACHE, "agent-build"), "--level", "6"];
  const mirror = process.env["MIRROR"];
  build("the agent (about a minute)", process.execPath, mirror === undefined ? words : [...words, "--mirror", mirror]);
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

function build(what: string, program: string, words: readonly string[]): void {
  console.log(`Building ${what} …`);
  const began = performance.now();
  const { status } = spawnSync(program, [...words], { cwd: ROOT, stdio: "inherit" });
  if (status !== 0) throw new Error(`${what} cannot be built: exit code ${status}.`);
  console.log(`… took ${((performance.now() - began) / 1000).toFixed(0)} s`);
}
