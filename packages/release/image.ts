/**
 * The image as an archive of OCI, without a daemon and without pulling: Debian packages, unpacked, and the program. The
 * settings are those of Dockerfile. Nothing of the other architecture is executed.
 */
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { DebianSource } from "../agent/build/debian.ts";
import { run } from "../agent/build/programs.ts";
import { ROOT } from "./checkout.ts";
import { DEBIAN, imageName, imageSettings, indexLines, packageOf } from "./names.ts";
import type { Architecture, DebianPackage, ImageSettings } from "./names.ts";

/** The C++ library of Node, the locale of the embedded database, a shell, and `setpriv` for processes of drivers. */
const BASE = ["base-files", "libstdc++6", "libc-bin", "dash", "util-linux"];
/** In Dockerfile it is that of the image that it begins with. */
const PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const HOOK = fileURLToPath(new URL("base.sh", import.meta.url));

export interface ImageRequest {
  readonly tree: string;
  readonly architecture: Architecture;
  readonly version: string;
  readonly epoch: string;
  readonly source: DebianSource;
  readonly work: string;
  readonly out: string;
}

export interface Image {
  readonly file: string;
  readonly packages: readonly DebianPackage[];
  /** Lines of sha256sum. */
  readonly index: string;
}

export async function image(request: ImageRequest): Promise<Image> {
  const { architecture, version, epoch, work, out, tree } = request;
  const settings = imageSettings(readFileSync(join(ROOT, "Dockerfile"), "utf8"));
  const folder = join(work, `image-${architecture}`);
  mkdirSync(folder, { recursive: true });
  const base = await baseSystem(request, settings, folder);
  const program = join(folder, "program.tar");
  // Names only, and no targets of links.
  const place = ["--transform", `s,^[.],${settings.workdir.slice(1)},SH`];
  await run("tar", [...sorted(epoch), ...place, "--file", program, "--directory", tree, "."]);
  const archive = await commit(request, settings, [base, program], folder);
  // What buildah writes is equal but for the times and the order in the outer archive.
  const layout = join(folder, "layout");
  mkdirSync(layout);
  await run("tar", ["--extract", "--file", archive, "--directory", layout]);
  const file = imageName(version, architecture);
  const contents = ["--mode=u=rwX,go=rX", "--directory", layout, "oci-layout", "index.json", "blobs"];
  await run("tar", [...sorted(epoch), "--file", join(out, file), ...contents]);
  const lines = (name: string) => readFileSync(join(folder, name), "utf8").trim().split("\n");
  const facts = { file, packages: lines("packages").map(packageOf), index: indexLines(lines("index")) };
  rmSync(folder, { recursive: true, force: true });
  return facts;
}

/** Leaves the notes of base.sh in the folder. */
async function baseSystem(request: ImageRequest, settings: ImageSettings, folder: string): Promise<string> {
  const { architecture, source, epoch } = request;
  const base = join(folder, "base.tar");
  const hook = [HOOK, '"$1"', folder, settings.user, settings.workdir].join(" ");
  const options = ["--quiet", "--variant=extract", "--format=tar", "--skip=output/dev"].concat([
    `--architectures=${DEBIAN[architecture]}`,
    `--include=${[...BASE, ...settings.packages].join(",")}`,
    `--extract-hook=sh ${hook}`,
  ]);
  const sources = [`deb ${source.mirror} bookworm main`, `deb ${source.securityMirror} bookworm-security main`];
  await run("mmdebstrap", [...options, "bookworm", base, ...sources], { env: { SOURCE_DATE_EPOCH: epoch } });
  return base;
}

/** Returns the archive that buildah writes, with one layer. */
async function commit(
  { architecture, version, epoch }: ImageRequest,
  settings: ImageSettings,
  contents: readonly string[],
  folder: string,
): Promise<string> {
  const archive = join(folder, "archive.tar");
  const storage = ["--root", join(folder, "storage"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  const buildah = (...args: readonly string[]) => run("buildah", [...storage, ...args]);
  const container = (await buildah("from", "--arch", DEBIAN[architecture], "scratch")).trim();
  for (const content of contents) await buildah("add", "--quiet", container, content, "/");
  const empty = join(folder, "empty");
  mkdirSync(empty);
  const owned = ["--quiet", "--chown", "1000:1000", "--chmod", "700"];
  for (const path of settings.folders) await buildah("add", ...owned, container, empty, path);
  const options = ["--os", "linux", "--arch", DEBIAN[architecture], "--created-by", "npm run release"].concat(
    ["--user", settings.user, "--workingdir", settings.workdir, "--stop-signal", settings.stopSignal],
    ["--entrypoint", settings.entrypoint, "--label", `org.opencontainers.image.version=${version}`],
    [PATH, ...settings.env].flatMap((one) => ["--env", one]),
    settings.ports.flatMap((one) => ["--port", one]),
  );
  await buildah("config", ...options, container);
  const target = `oci-archive:${archive}:ostler:${version}`;
  await buildah(
    "commit",
    "--quiet",
    "--disable-compression=false",
    "--format",
    "oci",
    "--timestamp",
    epoch,
    container,
    target,
  );
  return archive;
}

const sorted = (epoch: string) => [
  "--create",
  "--sort=name",
  `--mtime=@${epoch}`,
  "--owner=0",
  "--group=0",
  "--numeric-owner",
  "--format=gnu",
];
