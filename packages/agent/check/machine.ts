/** A machine in QEMU, always in software emulation, with one disk of each kind or fewer. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { copyFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Server } from "node:net";
import { startBmc } from "./bmc.ts";
import { SECRET, SESSION } from "./listener.ts";

export type Boot = "DIRECT" | "UEFI_ISO" | "BIOS_ISO";
export type DiskKind = "virtio" | "nvme" | "sata";

export interface AgentMedia {
  readonly folder: string;
  readonly kernelArguments: string;
  readonly slot: { readonly offset: number; readonly length: number };
}

export interface MachineOptions {
  readonly boot: Boot;
  readonly media: AgentMedia;
  readonly url: string;
  readonly work: string;
  readonly disks: readonly DiskKind[];
  readonly architecture?: "x64" | "arm64";
}

export const DISK_BYTES = 512 * 2 ** 20;
const OVMF = "/usr/share/OVMF/OVMF_CODE_4M.fd";
const OVMF_VARIABLES = "/usr/share/OVMF/OVMF_VARS_4M.fd";
const MEMORY_MIB = "1024";

export function hasUefi(): boolean {
  return existsSync(OVMF) && existsSync(OVMF_VARIABLES);
}

export class Machine {
  readonly #process: ChildProcess;
  readonly #work: string;
  readonly #bmc: Server;
  readonly started = performance.now();
  readonly ended: Promise<void>;

  constructor(options: MachineOptions) {
    this.#work = options.work;
    for (const kind of options.disks) {
      writeFileSync(this.disk(kind), "");
      truncateSync(this.disk(kind), DISK_BYTES);
    }
    const bmc = join(options.work, "bmc");
    this.#bmc = startBmc(bmc);
    const arm = options.architecture === "arm64";
    const program = arm ? "qemu-system-aarch64" : "qemu-system-x86_64";
    const platform = arm ? ["-M", "virt", "-cpu", "cortex-a57"] : ["-machine", "q35", "-vga", "std"];
    this.#process = spawn(
      program,
      ["-accel", "tcg", ...platform, "-m", MEMORY_MIB, "-smp", "2", "-nodefaults", "-display", "none", "-no-reboot"]
        .concat(["-serial", `file:${join(options.work, "console")}`])
        .concat(["-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,romfile=,mac=52:54:00:00:13:01"])
        .concat(arm ? [] : ["-smbios", "type=1,manufacturer=Lab Works,product=LW-1000,serial=LWS7"])
        .concat(arm ? [] : ["-chardev", `socket,id=ipmi,path=${bmc},reconnect=1`])
        .concat(arm ? [] : ["-device", "ipmi-bmc-extern,id=bmc,chardev=ipmi", "-device", "isa-ipmi-kcs,bmc=bmc"])
        .concat(options.disks.flatMap((kind) => this.#diskArguments(kind)))
        .concat(bootArguments(options)),
      { stdio: ["ignore", "inherit", "inherit"] },
    );
    this.ended = new Promise((resolve) => {
      this.#process.on("exit", () => {
        this.#bmc.close();
        resolve();
      });
    });
  }

  disk(kind: DiskKind): string {
    return join(this.#work, `${kind}.img`);
  }

  get console(): string {
    return readFileSync(join(this.#work, "console"), "latin1");
  }

  seconds(): number {
    return (performance.now() - this.started) / 1000;
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }

  #diskArguments(kind: DiskKind): readonly string[] {
    const device = {
      virtio: "virtio-blk-pci,drive=virtio,serial=VIRTIO1",
      nvme: "nvme,drive=nvme,serial=NVME1",
      sata: "ide-hd,drive=sata,serial=SATA1,model=SPIN,rotation_rate=7200",
    }[kind];
    const drive = `file=${this.disk(kind)},format=raw,if=none,id=${kind},discard=unmap,cache=unsafe`;
    return ["-drive", drive, "-device", device];
  }
}

function bootArguments(options: MachineOptions): readonly string[] {
  const { media, url, work } = options;
  if (options.boot === "DIRECT") {
    const session = `ostler.url=${url} ostler.session=${SESSION} ostler.secret=${SECRET}`;
    return ["-kernel", join(media.folder, "vmlinuz"), "-initrd", join(media.folder, "initrd")].concat([
      "-append",
      `${media.kernelArguments} ${session}`,
    ]);
  }
  const iso = join(work, "agent.iso");
  const bytes = readFileSync(join(media.folder, "agent.iso"));
  const document = JSON.stringify({ url, session: SESSION, secret: SECRET, network: null });
  bytes.write(document.padEnd(media.slot.length), media.slot.offset);
  writeFileSync(iso, bytes);
  const cd = ["-drive", `file=${iso},format=raw,if=none,id=cd,media=cdrom,readonly=on`].concat([
    "-device",
    "ide-cd,drive=cd,bootindex=0",
  ]);
  if (options.boot === "BIOS_ISO") return cd;
  const variables = join(work, "variables.fd");
  copyFileSync(OVMF_VARIABLES, variables);
  const flash = [`unit=0,readonly=on,file=${OVMF}`, `unit=1,file=${variables}`];
  return [...cd, ...flash.flatMap((part) => ["-drive", `if=pflash,format=raw,${part}`])];
}
