import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const sourceOf = (file: string) => fileURLToPath(new URL(`../../packages/client/src/${file}`, import.meta.url));

/** The service, seen from the development server. Pages and API share an origin, so no CORS is needed. */
const target = process.env["OSTLER_URL"] ?? "http://127.0.0.1:4000";
const proxy = { "/graphql": { target, ws: true, changeOrigin: true, rewriteWsOrigin: true } };

export default defineConfig({
  // The source of this repository. An application of its own installs the package instead, also in tsconfig.json.
  resolve: {
    alias: { "ostler-client/react": sourceOf("react.ts"), "ostler-client": sourceOf("index.ts") },
    dedupe: ["graphql", "graphql-ws", "react"],
  },
  server: { proxy },
  preview: { proxy },
  build: { target: "es2023", sourcemap: true },
});
