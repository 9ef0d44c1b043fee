#!/usr/bin/env node
/** The command `ostler-driver`. */
import { parseArgs } from "node:util";
import { certify } from "./certify.ts";
import { printCertificate } from "./certificate.ts";
import { createProject } from "./create-project.ts";

const HELP = `ostler-driver: write and check drivers of Ostler

  ostler-driver new FOLDER              create a driver in a new folder
  ostler-driver check DRIVER OPTIONS    run the conformance suite, and print a certificate

DRIVER is the module with the driver's factory as its default export, such as ./dist/index.js.

  --settings FILE   JSON: settings of a node that the driver accepts, with every secret (required)
  --live            the settings lead to a machine that may be SWITCHED ON AND OFF
  --refused FILE    JSON: settings that the machine refuses, such as a wrong password; with --live
  --driveless FILE  JSON: settings of a machine without drives, which no step may take for erased; with --live
  --steps LIST      further steps to run, such as clean.erase_disks,deploy.write_image; with --live
  --seconds N       limit of one power change or inspection step; default 60
  --json            print the certificate as JSON

A check that the driver or its machine does not support is printed as UNSUPPORTED, with the reasons.
The exit code is 0 if all checks pass, 1 if one fails, and 2 if the request is invalid.
`;

async function main(words: string[]): Promise<number> {
  const { positionals, values } = parseArgs({
    args: words,
    allowPositionals: true,
    options: {
      settings: { type: "string" },
      live: { type: "boolean", default: false },
      refused: { type: "string" },
      driveless: { type: "string" },
      steps: { type: "string" },
      seconds: { type: "string", default: "60" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const [command, target, ...others] = positionals;
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  if (target === undefined || others.length > 0) throw new Error("Name a command and one driver or folder.");
  if (command === "new") {
    createProject(target);
    process.stdout.write(`Created ${target}. Next: cd ${target} && npm install && npm test\n`);
    return 0;
  }
  if (command !== "check") throw new Error(`There is no command "${command}".`);
  if (values.settings === undefined) throw new Error("--settings is missing: settings of a node, as a JSON file.");
  const certificate = await certify(target, { ...values, settings: values.settings });
  process.stdout.write(values.json ? `${JSON.stringify(certificate, null, 2)}\n` : printCertificate(certificate));
  return certificate.failed === 0 ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\nSee ostler-driver --help.\n`);
  process.exitCode = 2;
}
