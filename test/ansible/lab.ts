/**
 * `npm run tool -- ansible`: the driver `ansible` with the real Ansible and SSH, on six hosts in network namespaces,
 * and a service in a process of its own that is used through its API. The hosts are discovered, commissioned as masters
 * and workers, redeployed and decommissioned; then one thing after the other goes wrong.
 *
 * Needs root and the Debian packages that it names. Prints a line for each check, then `N passed, N failed`. Takes
 * about three minutes.
 */
import { fileURLToPath } from "node:url";
import { runInNamespace } from "../e2e/namespace.ts";
import { missingForHosts } from "./prerequisites.ts";

const missing = missingForHosts();
if (missing !== null) {
  console.error(`The lab of the driver ansible cannot run. ${missing}`);
  process.exit(1);
}
process.exit(await runInNamespace(fileURLToPath(new URL("inside.ts", import.meta.url)), []));
