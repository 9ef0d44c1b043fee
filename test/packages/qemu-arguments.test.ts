/** The command line of a QEMU machine behind a simulated BMC. */
import { expect, test } from "vitest";
import { identityOf, OVMF, qemuDrive } from "../../packages/bmc-simulator/src/index.ts";
import { qemuArguments, qemuFiles } from "../../packages/bmc-simulator/src/qemu-arguments.ts";
import type { QemuSettings } from "../../packages/bmc-simulator/src/qemu-arguments.ts";

function words(settings: Partial<QemuSettings>, boot: { readonly target: string; readonly image?: string }): string[] {
  const plan = {
    settings: { directory: "/machines", ...settings },
    files: qemuFiles("/machines/bmc3"),
    number: 3,
    identity: identityOf(3),
  };
  return qemuArguments(plan, { mode: "UEFI", image: null, ...boot });
}

/** Devices by their boot index. */
function order(line: readonly string[]): readonly string[] {
  const devices = line.filter((word) => word.includes("bootindex="));
  const index = (word: string) => Number(/bootindex=(\d+)/.exec(word)?.[1]);
  return devices.toSorted((one, other) => index(one) - index(other)).map((word) => word.split(",")[0] ?? "");
}

const [DISK, CD, NETWORK] = ["virtio-blk-pci", "ide-cd", "virtio-net-pci"];

test.each([
  ["Hdd", [DISK, CD, NETWORK]],
  ["Cd", [CD, DISK, NETWORK]],
  ["Pxe", [NETWORK, DISK, CD]],
  ["UefiHttp", [NETWORK, DISK, CD]],
])("a QEMU machine whose boot target is %s starts that device first", (target, devices) => {
  expect(order(words({}, { target }))).toEqual(devices);
});

test("a QEMU machine with UEFI keeps its firmware variables in its folder", () => {
  const line = words({ firmware: "UEFI" }, { target: "Hdd" });
  expect(line).toContain("q35");
  expect(line).toContain(`if=pflash,format=raw,unit=0,readonly=on,file=${OVMF.code}`);
  expect(line).toContain("if=pflash,format=raw,unit=1,file=/machines/bmc3/vars.fd");
  expect(words({ firmware: "BIOS" }, { target: "Hdd" }).join(" ")).not.toContain("pflash");
});

test("a QEMU machine has the tap of its number, and reads its image by the URL that was inserted", () => {
  const line = words({ netdev: "tap,ifname=tap%n" }, { target: "Cd", image: "http://10.77.0.1/agent.iso" });
  expect(line).toContain("tap,ifname=tap3,id=network");
  expect(line.join(" ")).toContain("id=media,file=http://10.77.0.1/agent.iso,format=raw");
});

test("a QEMU machine has a disk with errors when its settings name one", () => {
  const line = words({ diskName: (file) => `blkdebug:errors.conf:${file}` }, { target: "Hdd" });
  expect(line.some((word) => word.startsWith("file=blkdebug:errors.conf:/machines/bmc3/disk.img,"))).toBe(true);
});

test("a QEMU machine has the disk that its BMC reports, so that its erasure is proven", () => {
  const { id, capacityBytes } = qemuDrive({ directory: "/machines", diskMiB: 2048 });
  expect(capacityBytes).toBe(2 ** 31);
  expect(words({}, { target: "Hdd" }).join(" ")).toContain(`serial=${identityOf(3).serialNumber}-${id},`);
});
