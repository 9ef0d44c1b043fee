/** The npm packages for authors of clients and of drivers: those of `packages` that are not private. */
import { existsSync, globSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { run } from "../agent/build/programs.ts";
import { ROOT, exportFiles } from "./checkout.ts";
import { tarballName } from "./names.ts";
import { LICENSES } from "./sbom.ts";

export interface Published {
  /** Below ROOT. */
  readonly folder: string;
  readonly name: string;
  readonly version: string;
  /** Names of packages. */
  readonly dependencies: readonly string[];
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
}

export function publishedPackages(): readonly Published[] {
  return globSync("packages/*/package.json", { cwd: ROOT })
    .toSorted()
    .flatMap((path) => {
      const manifest = JSON.parse(readFileSync(join(ROOT, path), "utf8")) as Manifest;
      const { name, version, dependencies = {} } = manifest;
      return manifest.private
        ? []
        : [{ folder: dirname(path), name, version, dependencies: Object.keys(dependencies) }];
    });
}

export interface Tarball {
  readonly file: string;
  /** The list of the packages that are part of its program; null if it has none. */
  readonly licenses: string | null;
}

/** Packed from a copy, in which nothing is left of an earlier build. */
export async function tarball({ folder: home, name, version }: Published, work: string, out: string): Promise<Tarball> {
  const folder = join(work, name);
  const others = [
    "src",
    "packages/client",
    "package.json",
    "tsconfig.json",
    "LICENSE",
    "*.graphql",
    "possibleTypes.json",
  ];
  await exportFiles(folder, [home, ...others]);
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  await run("npm", ["pack", "--pack-destination", out], { cwd: join(folder, home) });
  const licenses = join(folder, home, "dist", LICENSES);
  return { file: tarballName(name, version), licenses: existsSync(licenses) ? licenses : null };
}
