/**
 * `npm run release:check [-- --release DIR --work DIR --only tarballs,deb,image --kills 20]`: tries the artefacts of a
 * release as its users do, in systems of their own that see no file of the checkout. By default the newest release of
 * `release`. Needs root, and a machine with namespaces. Ends `N passed, N failed`.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { configuredMirror } from "../../packages/agent/build/debian.ts";
import { ROOT } from "../../packages/release/checkout.ts";
import { HERE, debName, tarballName } from "../../packages/release/names.ts";
import { part, prove } from "../support/proof.ts";
import { SUITES, checkDeb } from "./deb.ts";
import { checkFolder } from "./folder.ts";
import { checkImage } from "./image.ts";
import { missingForSystems, newestRelease } from "./prerequisites.ts";
import { checkDriverPackage, clientProject, installCommandLine } from "./project.ts";

const { values } = parseArgs({
  options: {
    release: { type: "string" },
    work: { type: "string", default: join(ROOT, "data/release-check") },
    only: { type: "string", default: "folder,tarballs,deb,image" },
    kills: { type: "string", default: "3" },
  },
});

/** The package of the newest release before this one, beside it; null if there is none. */
function packageBefore(release: string, version: string): string | null {
  const packages = readdirSync(dirname(release))
    .filter((name) => isBefore(name, version))
    .toSorted((a, b) => (isBefore(a, b) ? 1 : -1))
    .map((name) => join(dirname(release), name, debName(name, HERE)));
  return packages.find((file) => existsSync(file)) ?? null;
}

/** By the order of Debian, in which a preview comes before its release. */
function isBefore(one: string, other: string): boolean {
  const [left = "", right = ""] = [one, other].map((version) => version.replace("-", "~"));
  return /^\d/.test(one) && spawnSync("dpkg", ["--compare-versions", left, "lt", right]).status === 0;
}

async function main(): Promise<void> {
  const found = values.release ?? newestRelease();
  const missing = missingForSystems() ?? (found === null ? "Nothing is built: npm run release" : null);
  if (missing !== null || found === null) throw new Error(missing ?? "");
  const release = resolve(found);
  const version = basename(release);
  const work = resolve(values.work);
  const chosen = values.only.split(",");
  const project = join(work, "project");
  for (const folder of [project, join(work, "driver")]) rmSync(folder, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const tarball = (name: string) => join(release, tarballName(name, version));
  const examples = await clientProject(tarball("ostler-client"), project);
  console.log(release);
  await part("ostler-cli", () => installCommandLine(tarball("ostler-cli"), project));
  if (chosen.includes("folder")) await part("The folder", () => checkFolder(release));
  if (chosen.includes("tarballs"))
    await part("ostler-driver", () => checkDriverPackage(tarball("ostler-driver"), join(work, "driver")));
  if (chosen.includes("deb")) {
    const before = packageBefore(release, version);
    const file = join(release, debName(version, HERE));
    const given = {
      file,
      before,
      work,
      project,
      examples,
      kills: Number(values.kills),
      mirror: await configuredMirror(),
    };
    for (const suite of SUITES) await part(`The package on Debian ${suite}`, () => checkDeb(suite, given));
  }
  if (chosen.includes("image")) await part("The image", () => checkImage(release, version, project, work));
}

await prove(main);
