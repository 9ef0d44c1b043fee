import { defineConfig } from "vite";

/** The service, seen from the development server. Pages and API share an origin, so no CORS is needed. */
const proxy = { "/graphql": { target: process.env["OSTLER_URL"] ?? "http://127.0.0.1:4000", ws: true } };

export default defineConfig({
  server: { proxy },
  preview: { proxy },
  build: { target: "es2023", sourcemap: true },
});
