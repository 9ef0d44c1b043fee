/** `ostler image` against a running service. */
import { createHash } from "node:crypto";
import { chownSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { spawnSync } from "node:child_process";
import { afterAll, describe, expect, test } from "vitest";
import { imageCommand } from "../../src/commands/image.ts";
import { formatOf } from "../../src/commands/image-format.ts";
import { temporaryFile } from "../../src/commands/image-store.ts";
import { serviceUnderTest } from "../support/service.ts";
import { aCertificate, tlsFiles } from "../support/tls-files.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-image-command-"));
const imageFolder = join(folder, "images");
const ostler = await serviceUnderTest({ imageFolder });
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const environment = { OSTLER_IMAGE_DIR: imageFolder };
const run = (...args: string[]) => imageCommand(environment, [...args, "--url", ostler.url]);

/** The content of a disk with a partition table; each seed gives another content. */
function aDisk(seed: number): Buffer {
  const disk = Buffer.alloc(300_000, seed);
  disk.writeUInt16BE(0x55aa, 510);
  return disk;
}

function aFile(name: string, content: Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const sha256 = (content: Uint8Array) => createHash("sha256").update(content).digest("hex");
const files = () => readdirSync(imageFolder).toSorted();

async function shown(name: string): Promise<Record<string, unknown>> {
  const { image } = await ostler.query<{ image: Record<string, unknown> }>(
    "query Shown($name: String!) { image(by: { name: $name }) { format sizeBytes diskBytes checksum { value } url stored architecture bootMode callsHome userDataBytes labels { key value } description } }",
    { name },
  );
  return image;
}

const has = (program: string) => spawnSync(program, ["--version"]).error === undefined;

test("ostler image trusts the certificate file of the service on its own host, whatever its name and issuer", async () => {
  const issuer = aCertificate({ name: "Issuer" });
  using tls = tlsFiles(aCertificate({ name: "elsewhere", hosts: ["elsewhere.example"], issuer }));
  await using secure = await serviceUnderTest({ tls, started: false });
  const { hostname, port } = new URL(secure.url);
  const settings = { OSTLER_TLS_CERT: tls.cert, OSTLER_TLS_KEY: tls.key, OSTLER_HOST: hostname, OSTLER_PORT: port };
  expect(await imageCommand(settings, ["list"])).toBe("No images are registered.\n");
  await expect(imageCommand(settings, ["list", "--url", secure.url])).rejects.toThrow("cannot be reached");
  tls.write({ cert: aCertificate().certificate });
  await expect(imageCommand(settings, ["list"])).rejects.toThrow("cannot be reached");
});

describe("ostler image add", () => {
  test("a stored file is copied under its checksum, and the image has its sizes and the flags", async () => {
    const packed = zstdCompressSync(aDisk(1));
    const userData = aFile("user-data", Buffer.from("#cloud-config\n"));
    const flags = ["--arch", "arm64", "--boot-mode", "uefi", "--label", "os=debian", "--no-call-home", "--store"];
    const texts = ["--name", "one", "--description", "First.", "--user-data", userData];
    const text = await run("add", aFile("one.raw.zst", packed), ...flags, ...texts);
    expect(text).toMatch(/^Image one is registered: RAW_ZST, .* 293\.0 KiB on the disk/);
    expect(await shown("one")).toEqual({
      format: "RAW_ZST",
      sizeBytes: packed.length,
      diskBytes: 300_000,
      checksum: { value: sha256(packed) },
      url: null,
      stored: true,
      architecture: "ARM64",
      bootMode: "UEFI",
      callsHome: false,
      userDataBytes: 14,
      labels: [{ key: "os", value: "debian" }],
      description: "First.",
    });
    expect(files()).toEqual([`sha256-${sha256(packed)}`]);
    expect(readFileSync(join(imageFolder, `sha256-${sha256(packed)}`)).equals(packed)).toBe(true);
    expect(await run("list")).toMatch(/^one +RAW_ZST +\d+ B +293\.0 KiB +ARM64 +UEFI +\(stored\)$/m);
    expect(await run("delete", "one")).toBe("Deleted 1 image.\n");
    expect(files()).toEqual([]);
  });

  test("an image that starts in every boot mode is listed with ANY", async () => {
    await run("add", aFile("any.raw", aDisk(13)), "--name", "any", "--address", "http://images.example/any");
    expect(await run("list")).toMatch(/^any +RAW .* X64 +ANY +http/m);
  });

  test.skipIf(process.getuid?.() !== 0)("root makes the image folder for the user of the service", async () => {
    const data = join(folder, "data");
    mkdirSync(data);
    chownSync(data, 65_531, 65_531);
    const target = await temporaryFile(join(data, "images"), "part");
    await target[Symbol.asyncDispose]();
    expect(statSync(join(data, "images"))).toMatchObject({ uid: 65_531, gid: 65_531 });
  });

  test("an address is read, and the image keeps it", async () => {
    const packed = gzipSync(aDisk(2));
    const server = createServer((_request, response) => response.end(packed)).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/two.raw.gz`;
    await run("add", url, "--name", "two", "--checksum", `sha256:${sha256(packed)}`);
    await new Promise((resolve) => server.close(resolve));
    expect(await shown("two")).toMatchObject({ format: "RAW_GZ", url, diskBytes: 300_000, stored: false });
  });

  test("a file that machines download from elsewhere is registered with that address", async () => {
    const file = aFile("three.raw", aDisk(3));
    await run("add", file, "--name", "three", "--address", "http://images.example/three.raw", "--format", "raw");
    expect(await shown("three")).toMatchObject({ format: "RAW", url: "http://images.example/three.raw" });
  });

  test.skipIf(!has("qemu-img"))("a qcow2 file is converted", async () => {
    const raw = aFile("four.raw", Buffer.concat([aDisk(4), Buffer.alloc(724_000)]));
    const qcow2 = join(folder, "four.qcow2");
    spawnSync("qemu-img", ["convert", "-O", "qcow2", raw, qcow2]);
    await run("add", qcow2, "--name", "four", "--store");
    const image = await shown("four");
    expect(image).toMatchObject({ format: "RAW_ZST", diskBytes: 1_024_000 });
    const { value } = image["checksum"] as { value: string };
    const content = zstdDecompressSync(readFileSync(join(imageFolder, `sha256-${value}`)));
    expect(content.equals(readFileSync(raw))).toBe(true);
    expect(files()).toEqual([`sha256-${value}`]);
    const overlay = join(folder, "overlay.qcow2");
    spawnSync("qemu-img", ["create", "-f", "qcow2", "-F", "raw", "-b", raw, overlay]);
    await expect(run("add", overlay, "--name", "five", "--store")).rejects.toThrow("refers to another file");
    expect(files()).toEqual([`sha256-${value}`]);
  });

  test.skipIf(!has("xz"))("a file packed with xz has its unpacked size, and a cut one is refused", async () => {
    const packed = spawnSync("xz", ["--stdout"], { input: aDisk(12) }).stdout;
    await run("add", aFile("seven.raw.xz", packed), "--name", "seven", "--address", "http://images.example/7");
    expect(await shown("seven")).toMatchObject({ format: "RAW_XZ", diskBytes: 300_000 });
    const cut = aFile("cut.raw.xz", packed.subarray(0, packed.length - 20));
    await expect(run("add", cut, "--name", "eight", "--address", "http://images.example/8")).rejects.toThrow("damaged");
  });

  test.each<[string, readonly string[], string]>([
    ["without a name", ["--store"], "--name"],
    ["without a way for machines to reach it", ["--name", "x"], "--store"],
    ["with another format", ["--name", "x", "--store", "--format", "raw_gz"], "format RAW, not RAW_GZ"],
    ["with another checksum", ["--name", "x", "--store", "--checksum", `sha256:${"0".repeat(64)}`], "checksum"],
    ["with a checksum that is none", ["--name", "x", "--store", "--checksum", "md5:1"], "--checksum"],
    ["with an unknown architecture", ["--name", "x", "--store", "--arch", "mips"], "x64, arm64"],
    ["with a label without a key", ["--name", "x", "--store", "--label", "=x"], "--label"],
    ["with an unknown flag", ["--name", "x", "--stor"], "ostler image help"],
    ["with a flag of another command", ["--name", "x", "--force"], "--force"],
    ["with user data that does not exist", ["--name", "x", "--store", "--user-data", "/no/file"], "user data"],
    ["with the name of an image", ["--name", "taken", "--store"], "taken exists already"],
  ])("a file %s is refused, and nothing is left of it", async (_what, flags, message) => {
    if (flags.includes("taken"))
      await run("add", aFile("taken.raw", aDisk(6)), "--name", "taken", "--address", "http://images.example/taken");
    const before = files();
    await expect(run("add", aFile("bad.raw", aDisk(5)), ...flags)).rejects.toThrow(message);
    expect(files()).toEqual(before);
  });

  test.each<[string, Buffer, string]>([
    ["without a partition table", Buffer.alloc(100_000, 7), "has no partition table"],
    ["that is packed and without one inside", gzipSync(Buffer.alloc(100_000)), "The content of the file has no"],
    ["that is qcow2 inside", gzipSync(Buffer.concat([Buffer.from("QFI\u00fb", "latin1"), aDisk(8)])), "is qcow2"],
    ["that is cut", zstdCompressSync(aDisk(9)).subarray(0, 20), "damaged"],
    ["that is empty", Buffer.alloc(0), "has no partition table"],
  ])("a file %s is refused", async (_what, content, message) => {
    const before = files();
    await expect(run("add", aFile("odd", content), "--name", "odd", "--store")).rejects.toThrow(message);
    expect(files()).toEqual(before);
  });

  test("a service that cannot be reached is named before the file is read", async () => {
    const args = ["add", "/no/file", "--name", "x", "--store", "--url", "http://127.0.0.1:9"];
    await expect(imageCommand(environment, args)).rejects.toThrow("http://127.0.0.1:9 cannot be reached");
  });

  test("a folder that is not the service's is named, and the file is removed", async () => {
    const elsewhere = join(folder, "elsewhere");
    const args = ["add", aFile("six.raw", aDisk(10)), "--name", "six", "--store", "--url", ostler.url];
    await expect(imageCommand({ OSTLER_IMAGE_DIR: elsewhere }, args)).rejects.toThrow(elsewhere);
    expect(readdirSync(elsewhere)).toEqual([]);
  });
});

test.each([
  ["514649fb", "qcow2"],
  ["4b444d56", "VMDK"],
  ["7668647866696c65", "VHDX"],
  ["504b0304", "zip"],
])("a file that begins with %s is %s", (bytes, name) => {
  const head = Buffer.concat([Buffer.from(bytes, "hex"), aDisk(11)]);
  expect(formatOf(head)).toEqual({ name, isConverted: name === "qcow2" });
});
