/**
 * `npm run tool -- agent-check [--media DIR]`: boots the built media in QEMU (software emulation), gives the agent
 * tasks as the service does, and judges by reading the disks from outside. Prints a table with seconds and ends `N
 * passed, N failed, N skipped`.
 *
 * Needs the Debian packages qemu-system-x86, ovmf, fdisk, e2fsprogs, dosfstools, mtools, xz-utils and zstd; for arm64
 * also qemu-system-arm. A machine whose program is missing is skipped by name.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { parseArgs } from "node:util";
import { checkBoot, checkDirect, checkUefi } from "./scenarios.ts";
import type { Scenario } from "./scenarios.ts";
import { hasUefi } from "./machine.ts";
import type { AgentMedia } from "./machine.ts";
import { Table } from "./table.ts";

const PROGRAMS = ["sfdisk", "mke2fs", "mkfs.vfat", "mmd", "mcopy", "mtype", "gzip", "xz", "zstd"];

process.env["PATH"] = [process.env["PATH"], "/usr/sbin", "/sbin"].join(delimiter);

function installed(program: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((folder) => existsSync(join(folder, program)));
}

function media(folder: string, architecture: string): AgentMedia | null {
  const path = join(folder, architecture);
  if (!existsSync(join(path, "agent.json"))) return null;
  return { ...(JSON.parse(readFileSync(join(path, "agent.json"), "utf8")) as AgentMedia), folder: path };
}

async function withFolder(scenario: Scenario, table: Table, agent: AgentMedia): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), "agent-check-"));
  try {
    await scenario({ work, table, media: agent });
  } catch (error) {
    table.failed("the scenario", error instanceof Error ? error.message : String(error));
  } finally {
    rmSync(work, { recursive: true });
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { media: { type: "string", default: "data/agent" } } });
  const missing = PROGRAMS.filter((program) => !installed(program));
  if (missing.length > 0) throw new Error(`Programs are missing: ${missing.join(", ")}. See the head of this file.`);
  const table = new Table();
  const x64 = media(values.media, "x64");
  const arm64 = media(values.media, "arm64");
  const machines: readonly [name: string, agent: AgentMedia | null, obstacle: string | null, Scenario][] = [
    ["x64, kernel and ramdisk", x64, installed("qemu-system-x86_64") ? null : "qemu-system-x86", checkDirect],
    ["x64, ISO, UEFI", x64, installed("qemu-system-x86_64") && hasUefi() ? null : "qemu-system-x86, ovmf", checkUefi],
    ["x64, ISO, BIOS", x64, installed("qemu-system-x86_64") ? null : "qemu-system-x86", checkBoot("BIOS_ISO", "x64")],
    [
      "arm64, kernel and ramdisk",
      arm64,
      installed("qemu-system-aarch64") ? null : "qemu-system-arm",
      checkBoot("DIRECT", "arm64"),
    ],
  ];
  for (const [name, agent, obstacle, scenario] of machines) {
    table.heading(name);
    if (agent === null) table.skipped(name, `no media below ${values.media}: run npm run tool -- agent-build`);
    else if (obstacle !== null) table.skipped(name, `Debian packages are missing: ${obstacle}`);
    else await withFolder(scenario, table, agent);
  }
  process.exitCode = table.finish();
}

await main();
