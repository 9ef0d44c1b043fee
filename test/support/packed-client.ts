/**
 * The package `ostler-client` as its users get it: packed as it would be published, and installed in a folder of
 * theirs.
 */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);

/** Sources of the package. Copied, so that nothing is written into the repository and two tests can pack at a time. */
const INGREDIENTS = [
  "packages/client",
  "package.json",
  "tsconfig.json",
  "schema.graphql",
  "possibleTypes.json",
  "LICENSE",
];

/**
 * Makes a project of a new folder in which `ostler-client` is installed, beside those of our packages. Answers the
 * names of the packed files.
 */
export async function installClient(
  folder: string,
  packages: readonly string[] = ["graphql-ws", "graphql"],
): Promise<string[]> {
  const workshop = join(folder, "workshop");
  for (const path of INGREDIENTS) cpSync(join(ROOT, path), join(workshop, path), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(workshop, "node_modules"));
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], {
    cwd: join(workshop, "packages/client"),
  });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf("[\n"))) as { files: { path: string }[] }[];
  const tarball = readdirSync(folder).find((file) => file.endsWith(".tgz")) ?? "";
  writeFileSync(join(folder, "package.json"), '{ "name": "project", "private": true, "type": "module" }\n');
  await run("npm", ["install", "--offline", "--legacy-peer-deps", "--no-audit", "--no-fund", `./${tarball}`], {
    cwd: folder,
  });
  mkdirSync(join(folder, "node_modules"), { recursive: true });
  for (const name of packages) {
    const link = join(folder, "node_modules", name);
    mkdirSync(join(link, ".."), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), link);
  }
  return packed?.files.map(({ path }) => path).toSorted() ?? [];
}
