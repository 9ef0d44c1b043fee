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
import { mkdirSync, openSync, closeSync, existsSync, truncateSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import type { SystemIdentity } from "./hardware.ts";
import type { BootChoice, Machine } from "./machine.ts";

export interface QemuSettings {
  /** One folder below it for each machine: disk, console log, QMP socket. */
  readonly directory: string;
  readonly memoryMiB?: number;
  readonly diskMiB?: number;
  /** Argument of `-netdev` without its ID, by default `user,restrict=on`. */
  readonly netdev?: string;
  /** More arguments. */
  readonly extra?: readonly string[];
  readonly program?: string;
}

/** QEMU answers QMP within milliseconds unless the machine is overloaded. */
const QMP_TIMEOUT_MS = 10_000;
const SHUTDOWN_TIMEOUT_MS = 30_000;
/** A wrong argument or image ends QEMU at once. */
const START_MS = 300;

export function qemuMachine(settings: QemuSettings, number: number, identity: SystemIdentity): Machine {
  const folder = join(settings.directory, `bmc${number}`);
  mkdirSync(folder, { recursive: true });
  const disk = join(folder, "disk.img");
  if (!existsSync(disk)) {
    writeFileSync(disk, "");
    truncateSync(disk, (settings.diskMiB ?? 64) * 2 ** 20);
  }
  const socket = join(folder, "qmp");
  let running: { readonly child: ChildProcess; readonly ended: Promise<void> } | null = null;
  let listener: () => void = () => undefined;
  const stop = async () => {
    const current = running;
    running = null;
    current?.child.kill("SIGKILL");
    await current?.ended;
  };
  return {
    async start(boot) {
      await stop();
      const started = launch(settings, folder, argumentsFor({ settings, folder, disk, socket, identity }, boot));
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

interface Layout {
  readonly settings: QemuSettings;
  readonly folder: string;
  readonly disk: string;
  readonly socket: string;
  readonly identity: SystemIdentity;
}

function argumentsFor({ settings, folder, disk, socket, identity }: Layout, { target, image }: BootChoice): string[] {
  const first = target === "Pxe" || target === "UefiHttp" ? "network" : target === "Cd" ? "cd" : "disk";
  const order = [first, ...["disk", "cd", "network"].filter((name) => name !== first)];
  const index = (name: string) => `bootindex=${order.indexOf(name) + 1}`;
  const media: Pair[] =
    image === null ? [] : [["-drive", `if=none,id=media,file=${image},format=raw,media=cdrom,readonly=on`]];
  const pairs: readonly Pair[] = [
    // KVM opens on some machines and then hangs, so it is not tried.
    ["-accel", "tcg"],
    ["-machine", "pc"],
    ["-m", String(settings.memoryMiB ?? 256)],
    ["-display", "none"],
    ["-serial", `file:${join(folder, "console.log")}`],
    ["-qmp", `unix:${socket},server=on,wait=off`],
    ["-uuid", identity.uuid],
    ["-smbios", `type=1,serial=${identity.serialNumber}`],
    ["-drive", `file=${disk},format=raw,if=none,id=disk,cache=unsafe,discard=unmap`],
    ["-device", `virtio-blk-pci,drive=disk,${index("disk")}`],
    ...media,
    ["-device", `ide-cd,id=cd0,${image === null ? "" : "drive=media,"}${index("cd")}`],
    ["-netdev", `${settings.netdev ?? "user,restrict=on"},id=network`],
    ["-device", `virtio-net-pci,netdev=network,mac=${identity.macs[0] ?? "52:54:00:00:00:01"},${index("network")}`],
  ];
  return ["-nodefaults", ...pairs.flat(), ...(settings.extra ?? [])];
}

type Pair = readonly [string, string];

interface QmpCommand {
  readonly execute: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** Sends one command. Rejects with QEMU's reason if it refuses. */
function qmp(path: string, command: QmpCommand): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path);
    const end = (error: Error | null) => {
      socket.destroy();
      if (error) reject(error);
      else resolve();
    };
    socket.setTimeout(QMP_TIMEOUT_MS, () => end(new Error("QEMU does not answer.")));
    socket.on("error", end);
    let buffer = "";
    let answers = 0;
    socket.on("data", (data) => {
      buffer += data.toString("utf8");
      for (let at = buffer.indexOf("\n"); at >= 0; at = buffer.indexOf("\n")) {
        const message: unknown = JSON.parse(buffer.slice(0, at));
        buffer = buffer.slice(at + 1);
        if (typeof message !== "object" || message === null || "event" in message) continue;
        if ("error" in message) return end(new Error(JSON.stringify(message.error)));
        answers += 1;
        // The greeting, the answer to qmp_capabilities, the answer to the command.
        if (answers === 3) return end(null);
        socket.write(`${JSON.stringify(answers === 1 ? { execute: "qmp_capabilities" } : command)}\n`);
      }
    });
  });
}
