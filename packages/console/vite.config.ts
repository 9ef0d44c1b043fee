/** The build of the console, and `npm run console:dev`: pages from the sources, with the API of a running service. */
import type { ClientRequest, IncomingMessage } from "node:http";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import type { ProxyOptions } from "vite";

const clientSource = (file: string) => fileURLToPath(new URL(`../client/src/${file}`, import.meta.url));

/** The service, seen from the development server. */
const target = process.env["OSTLER_URL"] ?? "http://127.0.0.1:4000";
const passedOn: ProxyOptions = {
  target,
  ws: true,
  changeOrigin: true,
  configure(proxy) {
    // The service accepts pages of its own origin. A page of another server than this one is refused as before.
    const sendAsOwn = (sent: ClientRequest, { headers: { origin, host } }: IncomingMessage) => {
      if (origin !== undefined && URL.parse(origin)?.host === host) sent.setHeader("origin", new URL(target).origin);
    };
    proxy.on("proxyReq", sendAsOwn);
    proxy.on("proxyReqWs", sendAsOwn);
  },
};

export default defineConfig({
  base: "/console/",
  resolve: {
    alias: {
      "ostler-client/filter": clientSource("filter-language.ts"),
      "ostler-client/react": clientSource("react.ts"),
      "ostler-client": clientSource("index.ts"),
    },
    dedupe: ["graphql", "graphql-ws", "react"],
  },
  server: { proxy: { "/graphql": passedOn, "/auth": passedOn } },
  build: {
    target: "es2023",
    // A file of its own for every asset: the policy of the page allows no code and no styles in the page.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Of the packages in the bundle; the list of parts of a release names them by it.
    license: { fileName: "licenses.json" },
  },
});
