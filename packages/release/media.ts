/** The boot media of the agent, by the build of packages/agent. */
import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { DebianSource } from "../agent/build/debian.ts";
import { run } from "../agent/build/programs.ts";
import { ROOT } from "./checkout.ts";
import { indexLines, packageOf } from "./names.ts";
import type { Architecture, DebianPackage } from "./names.ts";

export interface Media {
  readonly packages: readonly DebianPackage[];
  /** Lines of sha256sum. */
  readonly index: string;
}

/** Keeps its downloads in `cache`. */
export async function media(
  architecture: Architecture,
  source: DebianSource,
  cache: string,
  out: string,
): Promise<Media> {
  const folders = ["--out", join(out, "agent"), "--work", cache];
  const mirrors = ["--mirror", source.mirror, "--security-mirror", source.securityMirror];
  const program = join(ROOT, "packages/agent/build/main.ts");
  await run(process.execPath, [program, "--arch", architecture, ...folders, ...mirrors], { cwd: ROOT });
  const packages = [architecture, "tools"].flatMap((part) =>
    readFileSync(join(cache, part, "unpacked"), "utf8")
      .trim()
      .split("\n")
      .map(packageOf),
  );
  return { packages, index: indexIn(join(cache, architecture, "state/lists")) };
}

export function indexIn(lists: string): string {
  const lines = globSync(join(lists, "*InRelease")).map(
    (file) => `${createHash("sha256").update(readFileSync(file)).digest("hex")}  ${basename(file)}`,
  );
  return indexLines(lines);
}
