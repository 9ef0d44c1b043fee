/** The package of Debian, made with dpkg-deb from plain files, and judged by lintian. */
import { createHash } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { run } from "../agent/build/programs.ts";
import { ROOT } from "./checkout.ts";
import { DEBIAN, debName, debianVersion } from "./names.ts";
import type { Architecture } from "./names.ts";
import { settle } from "./tree.ts";

const SOURCES = fileURLToPath(new URL("debian/", import.meta.url));
const CONFFILE = "/etc/ostler/ostler.env";
/** Versions of the symbols that Node 24 needs, and what the scripts call. Every Debian has all of them. */
const DEPENDS = "init-system-helpers (>= 1.65), libc6 (>= 2.28), libgcc-s1 (>= 3.4), libstdc++6 (>= 8), passwd";
const MAINTAINER = "The contributors of Ostler <contributors@ostler.example>";

export interface DebRequest {
  readonly tree: string;
  readonly architecture: Architecture;
  readonly version: string;
  readonly epoch: string;
  readonly work: string;
  readonly out: string;
}

/** Returns the name of the file. */
export async function deb(request: DebRequest): Promise<string> {
  const { tree, architecture, version, epoch, work, out } = request;
  const root = join(work, debName(version, architecture).replace(".deb", ""));
  mkdirSync(join(root, "usr/lib"), { recursive: true });
  await run("cp", ["--archive", "--link", tree, join(root, "usr/lib/ostler")]);
  const add = (path: string, content: string | Buffer, mode = 0o644) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
    chmodSync(join(root, path), mode);
  };
  const source = (name: string) => readFileSync(join(SOURCES, name), "utf8");
  const documented = (name: string) => readFileSync(join(ROOT, "docs/systemd", name), "utf8");
  add("usr/bin/ostler", documented("ostler-command"), 0o755);
  add("usr/lib/systemd/system/ostler.service", documented("ostler.service"));
  for (const name of ["ostler-dnsmasq.service", "driver-user.conf"])
    add(`usr/share/doc/ostler/examples/${name}`, documented(name));
  add("usr/share/doc/ostler/copyright", source("copyright"));
  add("usr/share/doc/ostler/changelog.gz", gzipSync(changelog(version, epoch), { level: 9 }));
  add("usr/share/man/man1/ostler.1.gz", gzipSync(source("ostler.1"), { level: 9 }));
  add("usr/share/lintian/overrides/ostler", source("lintian-overrides"));
  add(CONFFILE, documented("ostler.env"));
  const files = filesIn(root);
  settle(root, epoch);
  add(
    "DEBIAN/md5sums",
    files
      .filter((path) => `/${path}` !== CONFFILE)
      .map((path) => md5Line(root, path))
      .join(""),
  );
  add("DEBIAN/conffiles", `${CONFFILE}\n`);
  const sizes = files.map((path) => Math.ceil(lstatSync(join(root, path)).size / 1024));
  add(
    "DEBIAN/control",
    control(
      request,
      sizes.reduce((sum, size) => sum + size, 0),
    ),
  );
  for (const script of ["postinst", "prerm", "postrm"]) add(`DEBIAN/${script}`, source(script), 0o755);
  settle(join(root, "DEBIAN"), epoch);
  // After all else, because settle() makes files readable.
  chmodSync(join(root, CONFFILE), 0o600);
  const name = debName(version, architecture);
  // Two threads of xz divide the data differently than one.
  const options = ["--root-owner-group", "--threads-max=1", "-Zxz", "-z3", "--build", root, join(out, name)];
  await run("dpkg-deb", options, { env: { SOURCE_DATE_EPOCH: epoch } });
  return name;
}

/** Throws an error that names what lintian finds. */
export async function judge(file: string): Promise<void> {
  await run("lintian", ["--fail-on=error,warning", "--tag-display-limit=0", "--allow-root", file]);
}

function filesIn(root: string): readonly string[] {
  const paths = readdirSync(root, { recursive: true, encoding: "utf8" });
  return paths.filter((path) => lstatSync(join(root, path)).isFile()).toSorted();
}

function md5Line(root: string, path: string): string {
  return `${createHash("md5")
    .update(readFileSync(join(root, path)))
    .digest("hex")}  ${path}\n`;
}

function changelog(version: string, epoch: string): string {
  const date = new Date(Number(epoch) * 1000).toUTCString().replace("GMT", "+0000");
  return `ostler (${debianVersion(version)}) stable; urgency=medium\n\n  * CHANGELOG.md of this version lists the changes.\n\n -- ${MAINTAINER}  ${date}\n`;
}

function control({ version, architecture }: DebRequest, kilobytes: number): string {
  return [
    "Package: ostler",
    `Version: ${debianVersion(version)}`,
    `Architecture: ${DEBIAN[architecture]}`,
    `Maintainer: ${MAINTAINER}`,
    `Installed-Size: ${kilobytes}`,
    `Depends: ${DEPENDS}`,
    "Recommends: ipmitool, qemu-utils",
    "Suggests: ansible-core, dnsmasq-base, ipxe, openssh-client, postgresql, sshpass",
    "Section: admin",
    "Priority: optional",
    "Description: control plane for fleets of bare-metal machines",
    " One GraphQL request commissions, cleans, deploys or decommissions many",
    " machines, and every change of state arrives as a stream without gaps.",
    " .",
    " The package contains Node, and a PostgreSQL for installations without a",
    " database server.",
    "",
  ].join("\n");
}
