/** The machines of the check, and what each has to do. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { BMC } from "./bmc.ts";
import { ROOT_START, diskImage, measuredImage, packed, sha256 } from "./images.ts";
import type { Format, Label } from "./images.ts";
import { PlayedListener, SECRET } from "./listener.ts";
import type { AgentResult, Fault } from "./listener.ts";
import { DISK_BYTES, Machine } from "./machine.ts";
import type { AgentMedia, Boot, DiskKind } from "./machine.ts";
import type { Table } from "./table.ts";

export interface ScenarioInput {
  readonly work: string;
  readonly table: Table;
  readonly media: AgentMedia;
}

export type Scenario = (input: ScenarioInput) => Promise<void>;

interface Running {
  readonly listener: PlayedListener;
  readonly machine: Machine;
  readonly table: Table;
  readonly work: string;
}

const LIMIT_MS = 180_000;
const HEAD_BYTES = 4 * 2 ** 20;
const MIB = 2 ** 20;

async function within<T>(promise: Promise<T>, what: string): Promise<T> {
  const stop = new AbortController();
  const late = delay(LIMIT_MS, null, { signal: stop.signal }).then(() => {
    throw new Error(`${what} took more than ${LIMIT_MS / 1000} s`);
  });
  late.catch(() => undefined);
  try {
    return await Promise.race([promise, late]);
  } finally {
    stop.abort();
  }
}

interface MachinePlan {
  readonly boot: Boot;
  readonly architecture: "x64" | "arm64";
  readonly disks: readonly DiskKind[];
}

async function boot(input: ScenarioInput, plan: MachinePlan, use: (running: Running) => Promise<void>): Promise<void> {
  const listener = new PlayedListener();
  await listener.start();
  const machine = new Machine({ ...plan, media: input.media, url: listener.url, work: input.work });
  const running = { listener, machine, table: input.table, work: input.work };
  try {
    const report = await within(listener.firstContact, "the first poll");
    input.table.expect(
      report["protocol"] === 1,
      "first poll after power on",
      machine.seconds(),
      String(report["bootMode"]),
    );
    await use(running);
    listener.powerOff();
    const asked = performance.now();
    await within(machine.ended, "power off");
    input.table.expect(true, "power off when asked", (performance.now() - asked) / 1000);
    input.table.expect(!machine.console.includes(SECRET), "the console does not show the secret");
  } catch (error) {
    console.log(machine.console.slice(-1500));
    throw error;
  } finally {
    machine.kill();
    await machine.ended;
    listener.close();
  }
}

async function perform({ listener }: Running, kind: string, args: unknown): Promise<AgentResult & { seconds: number }> {
  const begun = performance.now();
  const result = await within(listener.perform(kind, args), kind);
  return { ...result, seconds: (performance.now() - begun) / 1000 };
}

function explained(result: AgentResult): string {
  return result.error ? `${result.error.code}: ${result.error.message}` : "";
}

interface Writing {
  readonly content: Buffer;
  readonly format: Format;
  readonly fault?: Fault;
  readonly checksum?: string;
  readonly more?: Record<string, unknown>;
}

function imageArgs({ listener }: Running, writing: Writing): unknown {
  return {
    image: {
      url: listener.serve("image", writing.content, writing.fault),
      format: writing.format,
      sizeBytes: writing.content.length,
      checksum: { algorithm: "SHA256", value: writing.checksum ?? sha256(writing.content) },
    },
    rootDisk: { serial: "VIRTIO1" },
    ...writing.more,
  };
}

const write = (running: Running, writing: Writing) => perform(running, "write_image", imageArgs(running, writing));

function readDisk(running: Running, length: number): Buffer {
  return readFileSync(running.machine.disk("virtio")).subarray(0, length);
}

async function inventory(running: Running): Promise<void> {
  const result = await perform(running, "inventory", {});
  const { serial, disks, networkInterfaces, bmc } = (result.output ?? {}) as {
    serial?: string;
    disks?: { serial: string; kind: string }[];
    networkInterfaces?: { mac: string; link: string }[];
    bmc?: { address?: string; channel?: number; mac?: string } | null;
  };
  const found = disks
    ?.map((disk) => `${disk.serial} ${disk.kind}`)
    .toSorted()
    .join(", ");
  running.table.expect(
    serial === "LWS7" && found === "NVME1 NVME, SATA1 HDD, VIRTIO1 VIRTUAL" && networkInterfaces?.[0]?.link === "UP",
    "inventory: serial, three disks, network",
    result.seconds,
    result.ok ? `${found}` : explained(result),
  );
  running.table.expect(
    bmc?.address === BMC.address && bmc.channel === BMC.channel && bmc.mac === BMC.mac,
    "inventory: address and channel of the BMC as seen from inside",
    result.seconds,
    JSON.stringify(bmc ?? null),
  );
}

async function erase(running: Running): Promise<void> {
  const { table, machine } = running;
  const kinds = ["virtio", "nvme", "sata"] as const;
  const fill = () => {
    for (const kind of kinds) writeFileSync(machine.disk(kind), Buffer.alloc(DISK_BYTES, "old "), { flag: "r+" });
  };
  fill();
  const metadata = await perform(running, "erase", { mode: "METADATA" });
  const edges = kinds.every((kind) => {
    const bytes = readFileSync(machine.disk(kind));
    return zeros(bytes.subarray(0, HEAD_BYTES)) && zeros(bytes.subarray(-HEAD_BYTES)) && bytes.includes("old ");
  });
  table.expect(
    metadata.ok && edges,
    "erase METADATA: both ends are empty, the middle is not",
    metadata.seconds,
    explained(metadata),
  );
  fill();
  const wrong = await perform(running, "erase", { mode: "ALL", keep: ["/dev/sdz"] });
  const kept = readFileSync(machine.disk("sata")).subarray(0, 4).toString() === "old ";
  table.expect(
    wrong.error?.code === "DISK_NOT_FOUND" && kept,
    "erase ALL, keep an unknown disk: nothing is erased",
    wrong.seconds,
  );
  const all = await perform(running, "erase", { mode: "ALL", keep: ["SATA1"] });
  const { disks = [] } = (all.output ?? {}) as {
    disks?: { path: string; means?: string; leftOut?: string }[];
  };
  const means = disks.map(({ path, means: how, leftOut }) => `${path} ${how ?? leftOut}`).join(", ");
  const gone =
    !readFileSync(machine.disk("virtio")).includes("old ") && !readFileSync(machine.disk("nvme")).includes("old ");
  const sata = readFileSync(machine.disk("sata")).includes("old ");
  table.expect(
    all.ok && gone && sata,
    "erase ALL but one: nothing is left on two, the third is whole",
    all.seconds,
    means || explained(all),
  );
  const rest = await perform(running, "erase", { mode: "ALL" });
  table.expect(
    rest.ok && !readFileSync(machine.disk("sata")).includes("old "),
    "erase ALL: nothing is left",
    rest.seconds,
    explained(rest),
  );
}

function zeros(bytes: Buffer): boolean {
  return bytes.equals(Buffer.alloc(bytes.length));
}

async function formats(running: Running): Promise<void> {
  const image = measuredImage();
  for (const format of ["RAW", "RAW_GZ", "RAW_XZ", "RAW_ZST"] as const) {
    const content = packed(image, format);
    const result = await write(running, { content, format });
    const speed = image.length / MIB / Number(result.output?.["seconds"] ?? 1);
    const equal = readDisk(running, image.length).equals(image);
    const detail = result.ok
      ? `${speed.toFixed(0)} MiB/s of disk, ${(content.length / MIB).toFixed(0)} MiB sent`
      : explained(result);
    running.table.expect(result.ok && equal, `write_image ${format}: 192 MiB are equal`, result.seconds, detail);
  }
}

async function faults(running: Running): Promise<void> {
  const { table } = running;
  const image = diskImage(running.work, "gpt");
  const zst = packed(image, "RAW_ZST");
  const refused = async (title: string, code: string, writing: Writing) => {
    const result = await write(running, writing);
    const unbootable = zeros(readDisk(running, HEAD_BYTES));
    table.expect(
      result.error?.code === code && unbootable,
      `write_image, ${title}: ${code}`,
      result.seconds,
      explained(result).slice(0, 110),
    );
  };
  await refused("wrong checksum", "CHECKSUM_MISMATCH", { content: zst, format: "RAW_ZST", checksum: "0".repeat(64) });
  await refused("format that it is not", "IMAGE_CORRUPT", { content: image, format: "RAW_ZST" });
  await refused("stalled", "IMAGE_STALLED", {
    content: image,
    format: "RAW",
    fault: "STALL",
    more: { stallSeconds: 2, patienceSeconds: 1 },
  });
  const large = packed(Buffer.alloc(DISK_BYTES + MIB), "RAW_GZ");
  await refused("unpacked larger than the disk", "IMAGE_TOO_LARGE", { content: large, format: "RAW_GZ" });
  const small = await write(running, { content: zst, format: "RAW_ZST", more: { minimumBytes: DISK_BYTES + 1 } });
  table.expect(
    small.error?.code === "IMAGE_TOO_LARGE",
    "write_image, minimumBytes above the disk: IMAGE_TOO_LARGE",
    small.seconds,
  );
  const unnamed = await write(running, { content: zst, format: "RAW_ZST", more: { rootDisk: null } });
  table.expect(unnamed.error?.code === "DISK_NOT_FOUND", "write_image, no hint: DISK_NOT_FOUND", unnamed.seconds);
  const cut = await write(running, { content: image, format: "RAW", fault: "CUT" });
  const equal = readDisk(running, image.length).equals(image);
  table.expect(
    cut.ok && equal,
    "write_image, connection cut: resumed, and equal",
    cut.seconds,
    cut.ok ? `resumed ${String(cut.output?.["resumed"])} times` : explained(cut),
  );
}

async function cancelled(running: Running): Promise<void> {
  const { listener, table, machine } = running;
  listener.percents.length = 0;
  const content = measuredImage();
  const result = perform(running, "write_image", imageArgs(running, { content, format: "RAW", fault: "SLOW" }));
  const begun = performance.now();
  while (!listener.percents.some((percent) => percent > 0) && performance.now() - begun < LIMIT_MS) await delay(50);
  listener.cancel();
  const asked = performance.now();
  const { error } = await result;
  const seconds = (performance.now() - asked) / 1000;
  const after = sha256(readFileSync(machine.disk("virtio")));
  // Data that the kernel had kept back would be written in these seconds.
  await delay(2000);
  const quiet = sha256(readFileSync(machine.disk("virtio"))) === after;
  table.expect(
    error?.code === "CANCELLED" && seconds < 3,
    "write_image cancelled: reported within 3 s of the order",
    seconds,
  );
  table.expect(quiet && zeros(readDisk(running, HEAD_BYTES)), "write_image cancelled: nothing is written afterwards");
}

interface Layout {
  readonly partitiontable: { readonly partitions: readonly { start: number; size: number }[] };
}

/** Writes and configures an image, and reads partitions, seed and file system from outside. */
async function configure(running: Running, label: Label, bootEntry: boolean): Promise<void> {
  const { table, machine, work } = running;
  const content = packed(diskImage(work, label), "RAW_ZST");
  const written = await write(running, { content, format: "RAW_ZST" });
  table.expect(written.ok, `write_image of a disk with ${label.toUpperCase()}`, written.seconds, explained(written));
  const seed = { metaData: '{"instance-id":"i1"}', userData: "#cloud-config\n", vendorData: null, networkConfig: null };
  const result = await perform(running, "configure", { disk: null, rootDisk: null, growLast: true, seed, bootEntry });
  if (!result.ok) return table.failed(`configure ${label.toUpperCase()}`, explained(result));
  const { partitiontable } = JSON.parse(execFileSync("sfdisk", ["-J", machine.disk("virtio")]).toString()) as Layout;
  const last = partitiontable.partitions[2] ?? { start: 0, size: 0 };
  const root = partitiontable.partitions[1] ?? { start: 0, size: 0 };
  table.expect(
    result.ok && last.start > 0 && root.start + root.size === last.start && DISK_BYTES - last.start * 512 < 10 * MIB,
    `configure ${label.toUpperCase()}: seed at the end, root grown up to it`,
    result.seconds,
    result.ok ? `boot entry ${String(result.output?.["bootEntry"])}` : explained(result),
  );
  const text = execFileSync("mtype", [
    "-i",
    `${machine.disk("virtio")}@@${last.start * 512}`,
    "::meta-data",
  ]).toString();
  table.expect(text === seed.metaData, "configure: the seed has the meta-data");
  const disk = readFileSync(machine.disk("virtio"));
  const blocks = disk.readUInt32LE(ROOT_START + 1024 + 4) * (1024 << disk.readUInt32LE(ROOT_START + 1024 + 24));
  table.expect(
    blocks > 0.95 * root.size * 512,
    "configure: ext4 fills the partition",
    null,
    `${(blocks / MIB).toFixed(0)} MiB`,
  );
  if (!bootEntry) return;
  const variables = readFileSync(`${work}/variables.fd`);
  table.expect(
    typeof result.output?.["bootEntry"] === "string" && variables.includes(Buffer.from("Ostler\0", "utf16le")),
    "configure: the firmware's memory has the boot entry",
  );
}

async function burnIn(running: Running): Promise<void> {
  for (const part of ["CPU", "MEMORY", "DISK"]) {
    const result = await perform(running, "burn_in", { part, seconds: 2 });
    running.table.expect(
      result.ok && Number(result.output?.["checked"]) > 0,
      `burn_in ${part}`,
      result.seconds,
      explained(result),
    );
  }
}

export const checkDirect: Scenario = (input) =>
  boot(input, { boot: "DIRECT", architecture: "x64", disks: ["virtio", "nvme", "sata"] }, async (running) => {
    await inventory(running);
    await erase(running);
    await formats(running);
    await faults(running);
    await cancelled(running);
    await configure(running, "gpt", false);
    await configure(running, "dos", false);
    await burnIn(running);
    const unknown = await perform(running, "dance", {});
    input.table.expect(unknown.error?.code === "UNSUPPORTED", "an unknown task: UNSUPPORTED", unknown.seconds);
  });

export const checkUefi: Scenario = (input) =>
  boot(input, { boot: "UEFI_ISO", architecture: "x64", disks: ["virtio"] }, (running) =>
    configure(running, "gpt", true),
  );

export function checkBoot(medium: Boot, architecture: "x64" | "arm64"): Scenario {
  return (input) =>
    boot(input, { boot: medium, architecture, disks: ["virtio"] }, async (running) => {
      const result = await perform(running, "inventory", {});
      input.table.expect(result.ok, "inventory", result.seconds, explained(result));
    });
}
