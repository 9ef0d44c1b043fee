import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** The service, seen from the development server. Pages and API share an origin, so no CORS is needed. */
const proxy = { "/graphql": { target: process.env["OSTLER_URL"] ?? "http://127.0.0.1:4000", ws: true } };

export default defineConfig({
  // The source of this repository. An application of its own installs the package instead, also in tsconfig.json.
  resolve: {
    alias: { "ostler-client": fileURLToPath(new URL("../../packages/client/src/index.ts", import.meta.url)) },
  },
  server: { proxy },
  preview: { proxy },
  build: { target: "es2023", sourcemap: true },
});
