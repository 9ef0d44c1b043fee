/** Projects of users, in which the packages for npm are installed as their pages describe. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "../../packages/agent/build/programs.ts";
import { ROOT } from "../../packages/release/checkout.ts";
import { check } from "../support/proof.ts";

const FLEET = fileURLToPath(new URL("fleet.mjs", import.meta.url));
/** Arguments of an example: the address of a service, and its token. */
const ARGUMENTS = "url: process.argv[2], token: () => process.argv[3]";

/** With the package, its peers, the program `fleet.mjs`, and the examples of the page, whose names it returns. */
export async function clientProject(tarball: string, folder: string): Promise<readonly string[]> {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "name": "project", "private": true, "type": "module" }\n');
  await run("npm", ["install", tarball, "graphql", "graphql-ws"], { cwd: folder });
  copyFileSync(FLEET, join(folder, "fleet.mjs"));
  const page = readFileSync(join(ROOT, "packages/client/README.md"), "utf8");
  return [...page.matchAll(/^```ts\n(.*?)^```/gms)].map(([, text = ""], index) => {
    const name = `example-${index + 1}.ts`;
    const example = text.replace(/url: "[^"]*"(, token: [^}]*)?/, `${ARGUMENTS} `);
    writeFileSync(join(folder, name), example);
    return name;
  });
}

/** The commands of the page of ostler-driver, with the package itself in place of the one on the registry. */
export async function checkDriverPackage(tarball: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await run("npx", ["--yes", "--package", tarball, "ostler-driver", "new", "my_machines"], { cwd: folder });
  const driver = join(folder, "my_machines");
  await run("npm", ["install", "--save-dev", tarball], { cwd: driver });
  const printed = await run("npm", ["test"], { cwd: driver });
  check("a driver made from the template passes its tests", /fail 0$/m.test(printed), "", printed.slice(-500));
}
