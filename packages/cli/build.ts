/**
 * Runs before `npm pack` and `npm publish`: bundles the command line into one file without dependencies, and writes the
 * licences of what it contains beside it.
 */
import { chmodSync, copyFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

// That of a shell or of a test would choose other code of the packages.
process.env["NODE_ENV"] = "production";
await build({
  root: at("."),
  configFile: false,
  logLevel: "warn",
  ssr: { noExternal: true },
  build: {
    ssr: at("src/ostler.ts"),
    target: "node20",
    minify: true,
    emptyOutDir: true,
    license: { fileName: "licenses.json" },
    rolldownOptions: { output: { codeSplitting: false, banner: "#!/usr/bin/env node" } },
  },
});
chmodSync(at("dist/ostler.js"), 0o755);
copyFileSync(at("../../LICENSE"), at("LICENSE"));
