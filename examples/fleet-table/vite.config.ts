import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const inRepository = (file: string) => fileURLToPath(new URL(`../../${file}`, import.meta.url));

/** Page, API and sign-in share an origin. The header: the service accepts a sign-in from its own origin only. */
const target = process.env["OSTLER_URL"] ?? "http://127.0.0.1:4000";
const passedOn = { target, ws: true, changeOrigin: true, headers: { origin: new URL(target).origin } };
const proxy = { "/graphql": passedOn, "/auth": passedOn };

export default defineConfig({
  // The source of this repository. An application of its own installs the package instead, also in tsconfig.json.
  resolve: {
    alias: {
      "ostler-client/possibleTypes.json": inRepository("possibleTypes.json"),
      "ostler-client": inRepository("packages/client/src/index.ts"),
    },
  },
  server: { proxy },
  preview: { proxy },
  build: { target: "es2023", sourcemap: true },
});
