/**
 * `npm run release [-- --out DIR --work DIR --key FILE --mirror URL --security-mirror URL]`: builds all artefacts of
 * the version in package.json from the commit of a clean checkout, for amd64 and arm64, into one folder that exists
 * only when it is complete. docs/releases/README.md describes the folder and how to publish it.
 */
import { copyFileSync, cpSync, existsSync, mkdirSync, renameSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { DebianPackages, configuredMirror } from "../agent/build/debian.ts";
import type { DebianSource } from "../agent/build/debian.ts";
import { BuildError, NEEDED, missingPrograms } from "../agent/build/programs.ts";
import { ROOT, cleanCommit } from "./checkout.ts";
import type { Commit } from "./checkout.ts";
import { deb, judge } from "./deb.ts";
import { image } from "./image.ts";
import { indexIn, media } from "./media.ts";
import { ARCHITECTURES, DEBIAN, mediaFolder, refusalOf, sbomName } from "./names.ts";
import type { DebianPackage } from "./names.ts";
import { provenance } from "./provenance.ts";
import { partOf, sbomOf, withBundled } from "./sbom.ts";
import type { Bom } from "./sbom.ts";
import { sha256Of, sign, writeSums } from "./sums.ts";
import { publishedPackages, tarball } from "./tarballs.ts";
import { programTree } from "./tree.ts";

const PROGRAMS = {
  ...NEEDED,
  git: "git",
  tar: "tar",
  lintian: "lintian",
  mmdebstrap: "mmdebstrap",
  buildah: "buildah",
};

/** apt-get does not end on a full disk, so it is not left to fail. */
const WORK_GIBIBYTES = 4;
const OUT_GIBIBYTES = 1;
/** Programs that fail for want of space do not all report it. */
const FULL_GIBIBYTES = 0.05;

/** The pages, at the paths by which they link to each other: a reader of a release has no checkout. */
const PAGES = ["CHANGELOG.md", "docs"];
/** Of the pages, those that only a checkout needs. */
const SOURCE = /\.ts$|\/docs\/(print|templates)$/;

interface Options {
  readonly out: string;
  readonly work: string;
  readonly key: string | null;
  /** Null for the archive in the sources of apt. */
  readonly mirror: string | null;
  readonly securityMirror: string | null;
}

/** Where a build writes: artefacts, and what they are made of. */
interface Folders {
  readonly out: string;
  readonly work: string;
}

function log(text: string): void {
  console.log(`${(performance.now() / 1000).toFixed(0).padStart(5)} s  ${text}`);
}

async function build(commit: Commit, options: Options, source: DebianSource, { work, out }: Folders): Promise<void> {
  const { version, epoch } = commit;
  const list = async (file: string, npm: Bom | null, packages: readonly DebianPackage[] = []) => {
    const sha256 = file.startsWith("agent/") ? null : sha256Of(join(out, file));
    writeFileSync(join(out, sbomName(file)), await sbomOf({ file, version, sha256, epoch }, npm, packages));
  };
  log("reading the package index of Debian");
  const indexes = new Set<string>();
  for (const architecture of ARCHITECTURES) {
    const folder = join(options.work, "index", architecture);
    await new DebianPackages(folder, DEBIAN[architecture], source).update();
    indexes.add(indexIn(join(folder, "state/lists")));
  }
  const trees = { x64: join(work, "tree-x64"), arm64: join(work, "tree-arm64") };
  for (const architecture of ARCHITECTURES) {
    log(`${architecture}: the program`);
    const { folder: tree, bom } = await programTree(trees[architecture], architecture, epoch);
    if (architecture === "x64") {
      log("packages for npm");
      for (const one of publishedPackages()) {
        const { file, licenses } = await tarball(one, work, out);
        const parts = partOf(bom, one.dependencies);
        await list(file, licenses === null ? parts : withBundled(parts, licenses));
      }
    }
    const request = { tree, architecture, version, epoch, work, out, source };
    log(`${architecture}: the package of Debian`);
    const packaged = await deb(request);
    await judge(join(out, packaged));
    await list(packaged, bom);
    log(`${architecture}: the image`);
    const built = await image(request);
    indexes.add(built.index);
    await list(built.file, bom, built.packages);
    log(`${architecture}: the boot media`);
    const { packages, index } = await media(architecture, source, join(options.work, "agent"), out);
    indexes.add(index);
    await list(mediaFolder(architecture), null, packages);
  }
  const [index = "", ...others] = indexes;
  if (others.length > 0) throw new BuildError("The package index of Debian has changed during the build. Start again.");
  for (const file of ["schema.graphql", "possibleTypes.json"]) copyFileSync(join(ROOT, file), join(out, file));
  for (const name of PAGES)
    cpSync(join(ROOT, name), join(out, name), { recursive: true, filter: (path) => !SOURCE.test(path) });
  writeFileSync(join(out, "provenance.json"), await provenance(commit, index));
  writeSums(out);
  sign(out, version, options.key);
}

function freeGibibytes(folder: string): number {
  if (!existsSync(folder)) return freeGibibytes(dirname(folder));
  const { bavail, bsize } = statfsSync(folder);
  return (bavail * bsize) / 2 ** 30;
}

/** Throws what stands against a release, before anything is written. */
async function judgeRequest(options: Options): Promise<{ readonly commit: Commit; readonly folder: string }> {
  const commit = await cleanCommit();
  const folder = join(options.out, commit.version);
  if (existsSync(folder))
    throw new BuildError(`${folder} exists. Raise the version in package.json, or remove the folder.`);
  if (options.key !== null && !existsSync(options.key)) throw new BuildError(`There is no key ${options.key}.`);
  const missing = missingPrograms({ ...PROGRAMS, ...(options.key !== null && { minisign: "minisign" }) });
  if (missing !== null) throw new BuildError(missing);
  for (const [place, gibibytes] of [
    [options.work, WORK_GIBIBYTES],
    [options.out, OUT_GIBIBYTES],
  ] as const)
    if (freeGibibytes(place) < gibibytes)
      throw new BuildError(`The disk is full: ${place} needs ${gibibytes} GiB of free space.`);
  if (process.getuid?.() !== 0) throw new BuildError("The build of the images needs root: sudo npm run release.");
  return { commit, folder };
}

/** Builds beside the final folder, which a rename then creates. */
async function release(options: Options): Promise<void> {
  const { commit, folder } = await judgeRequest(options);
  const mirror = options.mirror ?? (await configuredMirror());
  const source = { mirror, securityMirror: options.securityMirror ?? `${mirror}-security` };
  const unfinished = join(options.out, `.${commit.version}`);
  const work = join(options.work, "build");
  const clean = () => [unfinished, work].forEach((path) => rmSync(path, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => (clean(), process.exit(1)));
  clean();
  try {
    for (const path of [unfinished, work]) mkdirSync(path, { recursive: true });
    await build(commit, options, source, { work, out: unfinished });
    if ((await cleanCommit()).id !== commit.id) throw new BuildError("HEAD has moved during the build. Start again.");
    renameSync(unfinished, folder);
  } catch (error) {
    if (isDefect(error)) throw error;
    const isFull = [work, unfinished].some((path) => freeGibibytes(path) < FULL_GIBIBYTES);
    throw new BuildError(refusalOf((error as Error).message, mirror, isFull), { cause: error });
  } finally {
    clean();
  }
  log(`${folder} is complete${options.key === null ? ", without a signature" : ""}.`);
}

async function main(): Promise<void> {
  // Packed files have the modes of their copies.
  process.umask(0o022);
  const { values } = parseArgs({
    options: {
      out: { type: "string", default: join(ROOT, "release") },
      work: { type: "string", default: join(ROOT, "data/release") },
      key: { type: "string" },
      mirror: { type: "string" },
      "security-mirror": { type: "string" },
    },
  });
  await release({
    out: resolve(values.out),
    work: resolve(values.work),
    key: values.key === undefined ? null : resolve(values.key),
    mirror: values.mirror?.replace(/\/+$/, "") ?? null,
    securityMirror: values["security-mirror"] ?? null,
  });
}

/** An error of this program, and not of its input or its surroundings: Node gives those a code. */
function isDefect(error: unknown): boolean {
  return !(error instanceof BuildError) && !(error instanceof Error && "code" in error);
}

try {
  await main();
} catch (error) {
  if (isDefect(error)) throw error;
  console.error((error as Error).message.split("\n")[0]);
  process.exitCode = 1;
}
