/** The files of a release, and the facts that they state about it. */
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../packages/agent/build/programs.ts";
import { check } from "../support/proof.ts";

export async function checkFolder(release: string): Promise<void> {
  const files = readdirSync(release, { recursive: true, encoding: "utf8" }).filter((path) =>
    statSync(join(release, path)).isFile(),
  );
  const wrong = await run("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], { cwd: release });
  check("the checksums are right", wrong === "", "", wrong);
  const sums = readFileSync(join(release, "SHA256SUMS"), "utf8");
  const unlisted = files.filter((path) => !sums.includes(`  ${path}\n`)).toSorted();
  const signature = existsSync(join(release, "UNSIGNED")) ? "UNSIGNED" : "SHA256SUMS.minisig";
  check("they list every file", unlisted.join() === ["SHA256SUMS", signature].toSorted().join(), "", unlisted.join());
  check("it has the page of the installation", files.includes("docs/install.md"));
  const artefacts = files.filter((path) => /\.(tgz|deb|oci\.tar|iso)$/.test(path));
  const without = artefacts
    .map((path) => path.replace("/agent.iso", ""))
    .filter((path) => !files.includes(`${path}.cdx.json`));
  check("each artefact has a list of its parts", artefacts.length >= 8 && without.length === 0, "", without.join());
}
