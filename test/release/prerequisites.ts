/** Programs and rights that the check of a release needs. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { missingPrograms } from "../../packages/agent/build/programs.ts";
import { ROOT } from "../../packages/release/checkout.ts";

const PROGRAMS = {
  "dpkg-deb": "dpkg",
  mmdebstrap: "mmdebstrap",
  unshare: "util-linux",
  nsenter: "util-linux",
  ip: "iproute2",
};

/** The folder that was built last; null if there is none. */
export function newestRelease(): string | null {
  const folder = join(ROOT, "release");
  const built = existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith(".")) : [];
  const age = (name: string) => statSync(join(folder, name)).mtimeMs;
  const [newest] = built.toSorted((a, b) => age(b) - age(a));
  return newest === undefined ? null : join(folder, newest);
}

/** Why no system can be started in namespaces here; null if it can. */
export function missingForSystems(): string | null {
  if (process.getuid?.() !== 0) return "it needs root, for namespaces";
  const missing = missingPrograms(PROGRAMS);
  if (missing !== null) return missing;
  const namespaces = spawnSync("unshare", ["--mount", "--pid", "--net", "--cgroup", "--fork", "true"]);
  return namespaces.status === 0 ? null : "namespaces cannot be created here";
}

/** Why the newest release cannot be checked here; null if it can. */
export function missingForRelease(): string | null {
  return missingForSystems() ?? (newestRelease() === null ? "nothing is built: npm run release" : null);
}
