/** Projects of users, in which the packages for npm are installed as their pages describe. */
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
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

/** In the folder of the client's project. */
export const COMMAND_LINE = "cli/node_modules/ostler-cli/dist/ostler.js";

/** The command line beside the client's project, in which nothing else is installed. */
export async function installCommandLine(tarball: string, project: string): Promise<void> {
  const folder = join(project, "cli");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "name": "scripts", "private": true }\n');
  await run("npm", ["install", tarball], { cwd: folder });
  const installed = readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith("."));
  check("ostler-cli has no dependencies", installed.join() === "ostler-cli", "", installed.join());
}

/** Arguments of Node for a program that requests the page of the web console and each file that it names. */
export const CONSOLE_REQUESTS = [
  "-e",
  `const ask = async (path) => {
     const answer = await fetch("http://127.0.0.1:4000" + path);
     if (!answer.ok) throw new Error(path + " " + answer.status);
     return answer.text();
   };
   ask("/console/").then(async (page) => {
     const files = page.match(/\\/console\\/assets\\/[^"]+/g);
     for (const file of files) await ask(file);
     console.log(files.length);
   });`,
];

/** The commands of the page of ostler-driver, with the package itself in place of the one on the registry. */
export async function checkDriverPackage(tarball: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await run("npx", ["--yes", "--package", tarball, "ostler-driver", "new", "my_machines"], { cwd: folder });
  const driver = join(folder, "my_machines");
  await run("npm", ["install", "--save-dev", tarball], { cwd: driver });
  const printed = await run("npm", ["test"], { cwd: driver });
  check("a driver made from the template passes its tests", /fail 0$/m.test(printed), "", printed.slice(-500));
}
