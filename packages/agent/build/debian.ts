/**
 * Debian packages, fetched and unpacked without root: apt works in a folder of its own, with its own list of sources
 * and an empty list of installed packages. No maintainer script runs: these need root, and those of another
 * architecture need programs that this machine cannot execute.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { BuildError, KEYRING, run } from "./programs.ts";

export type DebianArchitecture = "amd64" | "arm64";

export interface DebianSource {
  /** Address of the archive, as in the sources of apt. */
  readonly mirror: string;
  /** Address of the security archive, by default the mirror's with `-security` behind it. */
  readonly securityMirror: string;
}

/** The suite is pinned: the names of packages and the Go compiler belong to it. */
const SUITE = "bookworm";

/** The Debian archive that apt on this machine uses. On Ubuntu there is none. */
export async function configuredMirror(): Promise<string> {
  const format = ["--format", "$(REPO_URI)", "Created-By: Packages"];
  const archives = (await run("apt-get", ["indextargets", ...format]))
    .split("\n")
    .map((address) => address.trim().replace(/\/+$/, ""))
    .filter((address) => /^https?:.*debian$/.test(address));
  const [mirror] = archives;
  if (mirror === undefined) throw new BuildError("The sources of apt name no Debian archive. Give one with --mirror.");
  return mirror;
}

function configuration(root: string, architecture: DebianArchitecture): string {
  return [
    `Dir::State "${root}/state";`,
    `Dir::State::status "${root}/state/status";`,
    `Dir::Cache "${root}/cache";`,
    `Dir::Etc::sourcelist "${root}/sources.list";`,
    `Dir::Etc::sourceparts "/dev/null";`,
    `Dir::Etc::preferences "/dev/null";`,
    `Dir::Etc::preferencesparts "/dev/null";`,
    `APT::Architecture "${architecture}";`,
    `APT::Architectures "${architecture}";`,
    `APT::Install-Recommends "false";`,
    `APT::Sandbox::User "${userInfo().username}";`,
    `Acquire::Languages "none";`,
    "",
  ].join("\n");
}

export class DebianPackages {
  readonly #root: string;
  readonly #env: Readonly<Record<string, string>>;

  constructor(root: string, architecture: DebianArchitecture, source: DebianSource) {
    this.#root = root;
    this.#env = { APT_CONFIG: join(root, "apt.conf") };
    if (!existsSync(KEYRING)) {
      throw new BuildError(`${KEYRING} is missing. Install the Debian package debian-archive-keyring.`);
    }
    for (const folder of ["state/lists/partial", "cache/archives/partial"]) {
      mkdirSync(join(root, folder), { recursive: true });
    }
    const signed = `[signed-by=${KEYRING}]`;
    writeFileSync(join(root, "apt.conf"), configuration(root, architecture));
    writeFileSync(join(root, "state/status"), "");
    writeFileSync(
      join(root, "sources.list"),
      `deb ${signed} ${source.mirror} ${SUITE} main\n` +
        `deb ${signed} ${source.securityMirror} ${SUITE}-security main\n`,
    );
  }

  async update(): Promise<void> {
    await run("apt-get", ["-qq", "-o", "APT::Update::Error-Mode=any", "update"], { env: this.#env });
  }

  /** Unpacks packages with all that they depend on, and returns the folder. */
  async unpackWithDependencies(names: readonly string[]): Promise<string> {
    // apt prints only what is not in its cache, so it is shown an empty one.
    const empty = join(this.#root, "no-archives");
    mkdirSync(join(empty, "partial"), { recursive: true });
    const files = await this.#filesOf("-o", `Dir::Cache::archives=${empty}`, "install", ...names);
    await run("apt-get", ["-qq", "-y", "--download-only", "install", ...names], { env: this.#env });
    return this.#unpack(files);
  }

  /** Unpacks packages alone. */
  async unpack(names: readonly string[]): Promise<string> {
    const files = await this.#filesOf("download", ...names);
    await run("apt-get", ["-qq", "download", ...names], { env: this.#env, cwd: join(this.#root, "cache/archives") });
    return this.#unpack(files);
  }

  /** Where a command of apt puts the packages: the cache may have other versions of them too. */
  async #filesOf(...command: readonly string[]): Promise<readonly string[]> {
    const addresses = await run("apt-get", ["-qq", "--print-uris", ...command], { env: this.#env });
    const names = [...addresses.matchAll(/^'[^']*' (\S+\.deb) /gm)].map(([, name = ""]) => name);
    return names.map((name) => join(this.#root, "cache/archives", name));
  }

  async #unpack(files: readonly string[]): Promise<string> {
    const tree = join(this.#root, "tree");
    const list = join(this.#root, "unpacked");
    const wanted = files.toSorted().join("\n");
    if (existsSync(list) && readFileSync(list, "utf8") === wanted) return tree;
    rmSync(list, { force: true });
    rmSync(tree, { recursive: true, force: true });
    mkdirSync(tree, { recursive: true });
    for (const file of files) await run("dpkg-deb", ["--extract", file, tree]);
    writeFileSync(list, wanted);
    return tree;
  }

  /** Version of an unpacked package. */
  async version(name: string): Promise<string> {
    const printed = await run("apt-cache", ["policy", name], { env: this.#env });
    return /Candidate: (\S+)/.exec(printed)?.[1] ?? "unknown";
  }
}
