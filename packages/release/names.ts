/** Names of artefacts, and the texts of the packages that follow from the version and from other files. Pure. */
import type { DebianArchitecture } from "../agent/build/debian.ts";
import { BuildError } from "../agent/build/programs.ts";

export type Architecture = "x64" | "arm64";

export const ARCHITECTURES: readonly Architecture[] = ["x64", "arm64"];
/** That of this machine. */
export const HERE: Architecture = process.arch === "arm64" ? "arm64" : "x64";
/** As Debian and OCI name them. */
export const DEBIAN: Readonly<Record<Architecture, DebianArchitecture>> = { x64: "amd64", arm64: "arm64" };

const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$/;

/** Debian sorts `0.2.0~preview.1` before `0.2.0`. */
export function debianVersion(version: string): string {
  if (!VERSION.test(version))
    throw new BuildError(`The version ${version} in package.json is not valid: use 1.2.3 or 1.2.3-preview.1.`);
  return version.replace("-", "~");
}

export const debName = (version: string, architecture: Architecture) =>
  `ostler_${debianVersion(version)}_${DEBIAN[architecture]}.deb`;
export const imageName = (version: string, architecture: Architecture) =>
  `ostler-${version}-${DEBIAN[architecture]}.oci.tar`;
export const mediaFolder = (architecture: Architecture) => `agent/${architecture}`;
export const tarballName = (name: string, version: string) => `${name}-${version}.tgz`;
/** `agent/x64` is a folder; its list of parts stands beside it. */
export const sbomName = (artefact: string) => `${artefact}.cdx.json`;

/** Settings of the last stage of a Dockerfile. */
export interface ImageSettings {
  readonly packages: readonly string[];
  /** Folders that belong to the user. */
  readonly folders: readonly string[];
  readonly workdir: string;
  readonly user: string;
  readonly env: readonly string[];
  readonly ports: readonly string[];
  readonly stopSignal: string;
  /** JSON. */
  readonly entrypoint: string;
}

export function imageSettings(dockerfile: string): ImageSettings {
  const stage = dockerfile.slice(dockerfile.lastIndexOf("\nFROM ")).replaceAll("\\\n", " ");
  const find = (pattern: RegExp) => {
    const found = pattern.exec(stage)?.[1];
    if (found === undefined) throw new BuildError(`The last stage of Dockerfile has nothing like ${pattern.source}.`);
    return found.trim().split(/\s+/);
  };
  return {
    packages: find(/--no-install-recommends ([^&\n]+)/),
    folders: find(/^RUN install -d -o \S+ -g \S+ -m 0700 (.+)$/m),
    workdir: find(/^WORKDIR (.+)$/m).join(" "),
    user: find(/^USER (.+)$/m).join(" "),
    env: find(/^ENV (.+)$/m),
    ports: find(/^EXPOSE (.+)$/m),
    stopSignal: find(/^STOPSIGNAL (.+)$/m).join(" "),
    entrypoint: find(/^ENTRYPOINT (.+)$/m).join(" "),
  };
}

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
}

/** The package of an archive: `libgdbm6_1%3a1.23-3_arm64.deb`. */
export function packageOf(file: string): DebianPackage {
  const [, name, version, architecture] = /([^/_]+)_([^/_]+)_([^/_]+)\.deb$/.exec(file) ?? [];
  if (name === undefined || version === undefined || architecture === undefined)
    throw new BuildError(`${file} is not named like a Debian package.`);
  return { name, version: decodeURIComponent(version), architecture };
}

/** The lines of sha256sum for package indexes, without the address of the archive in their names. */
export function indexLines(lines: readonly string[]): string {
  return lines
    .map((line) => line.replace(/  \S*_dists_/, "  "))
    .toSorted()
    .join("\n");
}

/** One sentence, also for a program that has printed a page before it failed. */
export function refusalOf(message: string, mirror: string, isFull: boolean): string {
  if (isFull || /no space left on device|ENOSPC|enough free space/i.test(message))
    return "The disk is full: free 5 GiB for the folders of --out and --work, and start again.";
  if (/Failed to fetch|Could not resolve|Unable to connect|no Release file|not signed|Some index files/.test(message))
    return `There is no package index of Debian at ${mirror}: check the network, or name another archive with --mirror.`;
  return message.split("\n").find((line) => line.trim() !== "") ?? "The build failed without a message.";
}
