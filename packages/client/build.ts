/** Runs before `npm pack` and `npm publish`: compiles the sources and copies the printed schema. */
import { execFileSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

rmSync(at("dist"), { recursive: true, force: true });
execFileSync(process.execPath, [at("../../node_modules/typescript/bin/tsc"), "-p", at("tsconfig.json")], {
  stdio: ["ignore", process.stderr, process.stderr],
});
for (const file of ["schema.graphql", "possibleTypes.json", "LICENSE"]) copyFileSync(at(`../../${file}`), at(file));
