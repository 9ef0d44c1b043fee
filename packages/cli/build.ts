/** Runs before `npm pack` and `npm publish`: bundles the command line into one file without dependencies. */
import { chmodSync, copyFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

rmSync(at("dist"), { recursive: true, force: true });
await build({
  input: at("src/ostler.ts"),
  platform: "node",
  output: {
    file: at("dist/ostler.js"),
    format: "esm",
    minify: true,
    codeSplitting: false,
    banner: "#!/usr/bin/env node",
  },
});
chmodSync(at("dist/ostler.js"), 0o755);
copyFileSync(at("../../LICENSE"), at("LICENSE"));
