/**
 * `node packages/release/package.ts OUT`: the package of Debian alone, from the commit of a clean checkout, for the
 * architecture of this machine; for tests. Prints its path.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { cleanCommit } from "./checkout.ts";
import { deb } from "./deb.ts";
import { HERE } from "./names.ts";
import { programTree } from "./tree.ts";

const out = resolve(process.argv[2] ?? ".");
const commit = await cleanCommit();
const work = mkdtempSync(join(tmpdir(), "ostler-package-"));
try {
  const { folder: tree } = await programTree(join(work, "tree"), HERE, commit.epoch);
  console.log(join(out, await deb({ ...commit, tree, architecture: HERE, work, out })));
} finally {
  rmSync(work, { recursive: true, force: true });
}
