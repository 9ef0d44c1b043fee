/** An upgrade of the package of Debian with work in progress, from the build of an older commit to that of HEAD. */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { configuredMirror } from "../../packages/agent/build/debian.ts";
import { run } from "../../packages/agent/build/programs.ts";
import { ROOT } from "../../packages/release/checkout.ts";
import { checkDebUpgrade } from "./deb.ts";
import { missingForSystems } from "./prerequisites.ts";
import { clientProject, installCommandLine } from "./project.ts";

/** Builds the package alone. */
const BUILD = "packages/release/package.ts";

/** Why it cannot be tried here; null if it can. */
export function missingForPackages(commit: string): string | null {
  const hasBuild = spawnSync("git", ["cat-file", "-e", `${commit}:${BUILD}`], { cwd: ROOT }).status === 0;
  return hasBuild ? missingForSystems() : `${commit} builds no package`;
}

/** Each commit builds its own package. */
export async function checkPackageUpgrade(from: string, work: string): Promise<void> {
  const before = await checkout(from, join(work, "before"));
  const after = await checkout("HEAD", join(work, "after"));
  const pack = async (name: string) => {
    const packed = await run("npm", ["pack", "--pack-destination", after.out], { cwd: join(after.folder, name) });
    return join(after.out, packed.trim().split("\n").at(-1) ?? "");
  };
  const project = join(work, "project");
  const examples = await clientProject(await pack("packages/client"), project);
  await installCommandLine(await pack("packages/cli"), project);
  const mirror = await configuredMirror();
  await checkDebUpgrade("bookworm", { file: after.file, before: before.file, work, project, examples, mirror });
}

async function checkout(commit: string, folder: string) {
  const out = `${folder}-built`;
  mkdirSync(out, { recursive: true });
  await run("git", ["clone", "--quiet", "--no-checkout", ROOT, folder]);
  const id = (await run("git", ["rev-parse", commit], { cwd: ROOT })).trim();
  await run("git", ["checkout", "--quiet", "--detach", id], { cwd: folder });
  await run("npm", ["ci"], { cwd: folder });
  const file = (await run(process.execPath, [BUILD, out], { cwd: folder })).trim();
  return { folder, out, file };
}
