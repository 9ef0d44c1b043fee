/**
 * A QEMU machine as the system of a BMC: power on starts it, power off ends it, virtual media is its CD drive, and the
 * boot target decides which device comes first. Software emulation, so that it runs anywhere; it has one disk, one CD
 * drive and one network card.
 *
 * Modes: off (no process) and on (a process, reached by QMP on a Unix socket). A guest that shuts itself down ends the
 * process, which the BMC notices.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdirSync, openSync, closeSync, copyFileSync, existsSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SystemIdentity } from "./hardware.ts";
import type { Machine } from "./machine.ts";
import { DISK_MIB, OVMF, qemuArguments, qemuFiles } from "./qemu-arguments.ts";
import type { QemuFiles, QemuSettings } from "./qemu-arguments.ts";
import { qmp } from "./qmp.ts";

export type { QemuSettings } from "./qemu-arguments.ts";

/** A machine that a test can also look into. */
export interface QemuMachine extends Machine {
  readonly folder: string;
  readonly files: QemuFiles;
  /** Of QEMU, null while the machine is off. */
  pid(): number | null;
}

const SHUTDOWN_TIMEOUT_MS = 30_000;
/** A wrong argument or image ends QEMU at once. */
const START_MS = 300;

export function qemuMachine(settings: QemuSettings, number: number, identity: SystemIdentity): QemuMachine {
  const folder = join(settings.directory, `bmc${number}`);
  const files = qemuFiles(folder);
  prepare(settings, folder, files);
  const { socket } = files;
  let running: { readonly child: ChildProcess; readonly ended: Promise<void> } | null = null;
  let listener: () => void = () => undefined;
  const stop = async () => {
    const current = running;
    running = null;
    current?.child.kill("SIGKILL");
    await current?.ended;
  };
  return {
    folder,
    files,
    pid: () => running?.child.pid ?? null,
    async start(boot) {
      await stop();
      const started = launch(settings, folder, qemuArguments({ settings, files, number, identity }, boot));
      running = started;
      void started.ended.then(() => {
        if (running !== started) return;
        running = null;
        listener();
      });
      const isDead = await Promise.race([started.ended.then(() => true), waited(START_MS)]);
      if (isDead) throw new Error(`QEMU ended at once. See ${join(folder, "qemu.log")}.`);
    },
    stop,
    async shutdown() {
      const current = running;
      if (current === null) return true;
      await qmp(socket, { execute: "system_powerdown" });
      const isDown = await Promise.race([current.ended.then(() => true), waited(SHUTDOWN_TIMEOUT_MS)]);
      return isDown;
    },
    async insert(image) {
      if (running === null) return;
      if (image === null) await qmp(socket, { execute: "eject", arguments: { id: "cd0", force: true } });
      else
        await qmp(socket, {
          execute: "blockdev-change-medium",
          arguments: { id: "cd0", filename: image, format: "raw", "read-only-mode": "read-only", force: true },
        });
    },
    onExit(call) {
      listener = call;
    },
    close: stop,
  };
}

function prepare({ firmware, diskMiB = DISK_MIB }: QemuSettings, folder: string, { disk, variables }: QemuFiles): void {
  mkdirSync(folder, { recursive: true });
  if (!existsSync(disk)) {
    writeFileSync(disk, "");
    truncateSync(disk, diskMiB * 2 ** 20);
  }
  if (firmware !== "UEFI" || existsSync(variables)) return;
  if (!existsSync(OVMF.variables)) throw new Error(`There is no ${OVMF.variables}: install the Debian package ovmf.`);
  copyFileSync(OVMF.variables, variables);
}

/** False after the time, without keeping the process alive. */
const waited = (ms: number) => new Promise<false>((resolve) => setTimeout(() => resolve(false), ms).unref());

function launch({ program = "qemu-system-x86_64" }: QemuSettings, folder: string, args: readonly string[]) {
  const log = openSync(join(folder, "qemu.log"), "a");
  const child = spawn(program, args, { stdio: ["ignore", log, log] });
  closeSync(log);
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  return { child, ended };
}
