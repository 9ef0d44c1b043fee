/** Artifacts that are built once, with the network of this machine, and kept: the image to install, and the agent. */
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Not part of the repository; `npm ci` removes it. */
export const CACHE = process.env["E2E_CACHE"] ?? join(ROOT, "node_modules/.cache/ostler-e2e");

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
  if (options.rebuild) rmSync(image, { recursive: true, force: true });
  const artifacts = { raw: join(image, "debian.raw"), compressed: join(image, "debian.raw.zst"), agentFolder };
  if (!existsSync(artifacts.compressed)) build("the image (about two minutes)", imageScript(), [image]);
  return artifacts;
}

const imageScript = () => fileURLToPath(new URL("image/build-image.sh", import.meta.url));

function build(what: string, program: string, words: readonly string[]): void {
  console.log(`Building ${what} …`);
  const began = performance.now();
  const { status } = spawnSync(program, [...words], { cwd: ROOT, stdio: "inherit" });
  if (status !== 0) throw new Error(`${what} cannot be built: exit code ${status}.`);
  console.log(`… took ${((performance.now() - began) / 1000).toFixed(0)} s`);
}
