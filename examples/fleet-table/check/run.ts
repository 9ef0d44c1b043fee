/**
 * `npm run tool -- example-fleet`: builds the example, and drives it in a real browser against a real service with
 * 10,000 simulated nodes. Prints a line for each check, the figures, and finally `N passed, N failed`.
 *
 * Options: --nodes 10000 --seconds 60 (how long changes go on while requests are counted), --serve (opens the page for
 * people, and checks nothing).
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { installedBrowser } from "../../../test/console/browser/browser.ts";
import { buildPage, installPackages, missingForBrowser } from "./requirements.ts";

const { values } = parseArgs({
  options: {
    nodes: { type: "string", default: "10000" },
    seconds: { type: "string", default: "60" },
    serve: { type: "boolean", default: false },
  },
});
const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const nodes = Number(values.nodes);

const missing = values.serve ? null : missingForBrowser();
if (missing !== null) {
  console.error(`The example cannot be driven: ${missing}.\n0 passed, 1 failed`);
  process.exit(1);
}
installPackages(FOLDER);
buildPage(FOLDER);
if (values.serve) {
  const { serve } = await import("./serve.ts");
  await serve(`${FOLDER}dist`, nodes);
} else {
  // Its packages are installed by now.
  const { drive } = await import("./drive.ts");
  const { passed, failed } = await drive({
    folder: FOLDER,
    browser: installedBrowser() ?? "",
    nodes,
    seconds: Number(values.seconds),
  });
  console.log(`\n${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
}
