/**
 * `npm run tool -- agent-build [--arch x64|arm64 --out DIR --mirror URL]`: builds the boot media of the agent from
 * Debian packages and packages/agent, without root. Nothing of the other architecture is executed. docs/agent.md
 * describes the result.
 */
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Archive } from "./archive.ts";
import { addCertificates, addModules, addPrograms, kernelRelease } from "./collect.ts";
import { MODULES, PROGRAMS, packagesFor } from "./contents.ts";
import { DebianPackages, configuredMirror } from "./debian.ts";
import type { DebianArchitecture, DebianSource } from "./debian.ts";
import { buildIso } from "./iso.ts";
import { BuildError, missingPrograms, NEEDED, run } from "./programs.ts";

type Architecture = "x64" | "arm64";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const DEBIAN: Readonly<Record<Architecture, DebianArchitecture>> = { x64: "amd64", arm64: "arm64" };
/** Kernel and ramdisk together; a BMC loads them through its own, slow port. */
const LIMIT_BYTES = 60 * 2 ** 20;
/** GRUB and the kernel align what they load; an archive must begin at a multiple of 4 bytes. */
const ALIGNMENT = 512;

/**
 * quiet: without it the kernel prints its arguments, and so the secret of a network boot, on the console. panic: an
 * agent that crashes does not stand still. On arm64 the firmware names the serial console.
 */
const KERNEL_ARGUMENTS: Readonly<Record<Architecture, string>> = {
  x64: "quiet panic=30 no_timer_check net.ifnames=0 console=tty0 console=ttyS0,115200n8",
  arm64: "quiet panic=30 net.ifnames=0",
};

interface Request {
  readonly architecture: Architecture;
  readonly out: string;
  readonly work: string;
  readonly source: DebianSource;
  /** Level of zstd. */
  readonly level: string;
}

/** Below ten seconds, so that a build is never silent for longer. */
const REPEAT_MS = 8_000;

let stage = "starting";

function log(text: string): void {
  stage = text;
  print(text);
}

function print(text: string): void {
  console.log(`${(performance.now() / 1000).toFixed(1).padStart(7)} s  ${text}`);
}

/** The Go compiler and the BIOS boot loader, of the architecture of this machine. */
async function buildTools(request: Request): Promise<string> {
  const architecture = process.arch === "arm64" ? "arm64" : "amd64";
  const packages = new DebianPackages(join(request.work, "tools"), architecture, request.source);
  await packages.update();
  return packages.unpack(["golang-1.19-go", "golang-1.19-src", "isolinux", "syslinux-common"]);
}

async function compile(request: Request, tools: string, version: string): Promise<string> {
  const program = join(request.work, request.architecture, "ostler-agent");
  await run(
    join(tools, "usr/lib/go-1.19/bin/go"),
    ["build", "-trimpath", "-buildvcs=false", "-ldflags", `-s -w -buildid= -X main.version=${version}`].concat([
      "-o",
      program,
      ".",
    ]),
    {
      cwd: PACKAGE,
      env: {
        GOROOT: join(tools, "usr/lib/go-1.19"),
        GOCACHE: join(request.work, "go-cache"),
        GOPATH: join(request.work, "go"),
        GOFLAGS: "-mod=mod",
        GOPROXY: "off",
        GOTOOLCHAIN: "local",
        CGO_ENABLED: "0",
        GOOS: "linux",
        GOARCH: DEBIAN[request.architecture],
      },
    },
  );
  return program;
}

async function ramdisk(tree: string, program: string): Promise<Buffer> {
  const archive = new Archive();
  for (const folder of ["dev", "proc", "run", "sys", "tmp", "mnt", "root", "bin", "sbin", "var"])
    archive.folder(folder);
  archive.link("var/run", "/run");
  archive.link("etc/mtab", "/proc/self/mounts");
  archive.link("etc/resolv.conf", "/run/resolv.conf");
  await addPrograms(archive, tree, PROGRAMS);
  const missing = await addModules(archive, tree, MODULES);
  log(`modules that this kernel has not, or has built in: ${missing.join(" ")}`);
  addCertificates(archive, tree);
  archive.copy("init", join(PACKAGE, "ramdisk/init"), 0o755);
  archive.copy("etc/ostler/udhcpc", join(PACKAGE, "ramdisk/udhcpc"), 0o755);
  archive.copy("bin/ostler-agent", program, 0o755);
  return archive.bytes();
}

/** Bytes behind a zstd frame are zeros up to the next multiple, which the kernel passes over. */
function pad(file: string): void {
  const bytes = readFileSync(file);
  const rest = bytes.length % ALIGNMENT;
  if (rest !== 0) writeFileSync(file, Buffer.concat([bytes, Buffer.alloc(ALIGNMENT - rest)]));
}

function fileFacts(file: string): { sizeBytes: number; sha256: string } {
  const bytes = readFileSync(file);
  return { sizeBytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
}

async function build(request: Request): Promise<void> {
  const { architecture } = request;
  const { version } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as { version: string };
  const work = join(request.work, architecture);
  const out = join(request.out, architecture);
  mkdirSync(work, { recursive: true });
  mkdirSync(out, { recursive: true });
  log(`downloads 186 MB, and keeps 1.4 GB in ${request.work}`);
  log(`fetching packages for ${architecture}`);
  const tools = await buildTools(request);
  const packages = new DebianPackages(work, DEBIAN[architecture], request.source);
  await packages.update();
  const tree = await packages.unpackWithDependencies(packagesFor(DEBIAN[architecture]));
  log("compiling the agent");
  const program = await compile(request, tools, version);
  log("collecting programs and kernel modules");
  const plain = join(work, "initrd.cpio");
  writeFileSync(plain, await ramdisk(tree, program));
  log(`compressing ${(statSync(plain).size / 2 ** 20).toFixed(1)} MiB with zstd -${request.level}`);
  const initrd = join(out, "initrd");
  await run("zstd", ["-q", "-f", "-T0", `-${request.level}`, plain, "-o", initrd]);
  pad(initrd);
  const kernel = join(out, "vmlinuz");
  const release = kernelRelease(tree);
  copyFileSync(join(tree, `boot/vmlinuz-${release}`), kernel);
  log("writing the ISO");
  const kernelArguments = KERNEL_ARGUMENTS[architecture];
  const iso = join(out, "agent.iso");
  const slots = await buildIso({ architecture, tree, toolTree: tools, kernel, initrd, kernelArguments, work, iso });
  const files = { vmlinuz: fileFacts(kernel), initrd: fileFacts(initrd), "agent.iso": fileFacts(iso) };
  const description = {
    version,
    protocol: 2,
    architecture: architecture === "x64" ? "X64" : "ARM64",
    kernel: release,
    kernelArguments,
    sizes: Object.fromEntries(Object.entries(files).map(([name, { sizeBytes }]) => [name, sizeBytes])),
    sha256s: Object.fromEntries(Object.entries(files).map(([name, { sha256 }]) => [name, sha256])),
    ...slots,
  };
  writeFileSync(join(out, "agent.json"), `${JSON.stringify(description, null, 2)}\n`);
  report(out, files);
}

function report(out: string, files: Readonly<Record<string, { sizeBytes: number }>>): void {
  for (const [name, { sizeBytes }] of Object.entries(files)) {
    log(`${join(out, name)}: ${(sizeBytes / 2 ** 20).toFixed(1)} MiB`);
  }
  const total = (files["vmlinuz"]?.sizeBytes ?? 0) + (files["initrd"]?.sizeBytes ?? 0);
  if (total > LIMIT_BYTES) throw new BuildError(`Kernel and ramdisk have ${total} bytes, more than ${LIMIT_BYTES}.`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      arch: { type: "string", default: process.arch === "arm64" ? "arm64" : "x64" },
      out: { type: "string", default: "data/agent" },
      work: { type: "string" },
      mirror: { type: "string" },
      "security-mirror": { type: "string" },
      level: { type: "string", default: "9" },
    },
  });
  if (values.arch !== "x64" && values.arch !== "arm64")
    throw new BuildError(`--arch is x64 or arm64, not ${values.arch}.`);
  if (!/^([1-9]|1\d)$/.test(values.level)) throw new BuildError(`--level is 1 to 19, not ${values.level}.`);
  const missing = missingPrograms(NEEDED);
  if (missing !== null) throw new BuildError(missing);
  setInterval(() => print(`still ${stage}`), REPEAT_MS).unref();
  const mirror = values.mirror?.replace(/\/+$/, "") ?? (await configuredMirror());
  const out = resolve(values.out);
  await build({
    architecture: values.arch,
    out,
    work: resolve(values.work ?? join(out, ".build")),
    source: { mirror, securityMirror: values["security-mirror"] ?? `${mirror}-security` },
    level: values.level,
  });
}

try {
  await main();
} catch (error) {
  if (!(error instanceof BuildError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
