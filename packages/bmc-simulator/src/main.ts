/**
 * `npm run tool -- bmc`: starts simulated Redfish BMCs on loopback and prints where they are, until it is interrupted.
 * `npm run tool -- bmc --help` lists the options.
 */
import { parseArgs } from "node:util";
import { startControl } from "./control.ts";
import { qemuDrive } from "./qemu-arguments.ts";
import { qemuMachine } from "./qemu.ts";
import { CREDENTIALS, startFleet } from "./start.ts";
import type { FleetSettings, SimulatedBmc } from "./start.ts";
import { PRESET_NAMES, traitsOf } from "./traits.ts";

const HELP = `Starts simulated Redfish BMCs on loopback.

  --count N            how many (1)
  --preset A,B         kinds of BMC, used in turn (all): ${PRESET_NAMES.join(", ")}
  --port N             port of the first BMC, the next has the next one; 0 is any free port (8000)
  --addresses A.B.C.D  one loopback address each from this one on, all at the port of --port
  --tls                HTTPS with a self-signed certificate, which is printed
  --user NAME          (${CREDENTIALS.userName})
  --password TEXT      (${CREDENTIALS.password})
  --latency X          none, measured (as the real BMC of the preset), or milliseconds (measured)
  --control PORT       control address for faults: PATCH /simulator/faults (off)
  --qemu DIR           each system is a QEMU machine, with its disk and console below DIR
  --qemu-memory MIB    (256)
  --qemu-disk MIB      (64)
  --qemu-netdev TEXT   (user,restrict=on); %n is the number of the machine
  --qemu-firmware X    BIOS, or UEFI, which needs OVMF (BIOS)
  --json               JSON instead of the table
`;

const OPTIONS = {
  count: { type: "string", default: "1" },
  preset: { type: "string", default: PRESET_NAMES.join(",") },
  port: { type: "string", default: "8000" },
  addresses: { type: "string" },
  tls: { type: "boolean", default: false },
  user: { type: "string", default: CREDENTIALS.userName },
  password: { type: "string", default: CREDENTIALS.password },
  latency: { type: "string", default: "measured" },
  control: { type: "string" },
  qemu: { type: "string" },
  "qemu-memory": { type: "string", default: "256" },
  "qemu-disk": { type: "string", default: "64" },
  "qemu-netdev": { type: "string", default: "user,restrict=on" },
  "qemu-firmware": { type: "string", default: "BIOS" },
  json: { type: "boolean", default: false },
  help: { type: "boolean", default: false },
} as const;

/** Of the table and of JSON. */
interface Row {
  readonly name: string;
  readonly preset: string;
  readonly url: string;
  readonly system: string;
  readonly serialNumber: string;
  readonly mac: string;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: OPTIONS });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const presets = values.preset.split(",");
  const traits = presets.map(traitsOf);
  const fleet = await startFleet({ ...fleetSettings(values), traits });
  const control =
    values.control === undefined
      ? null
      : await startControl(fleet.bmcs, "127.0.0.1", wholeNumber("control", values.control));
  const rows = fleet.bmcs.map((bmc, index) => rowOf(bmc, presets[index % presets.length] ?? ""));
  const [first] = fleet.bmcs;
  const login = { userName: values.user, password: values.password };
  if (values.json)
    console.log(
      JSON.stringify({ ...login, tls: first?.tls ?? null, control: control?.url ?? null, bmcs: rows }, null, 2),
    );
  else {
    console.log(tableOf(rows));
    console.log(`\nUser ${login.userName}, password ${login.password}. Ctrl-C ends all.`);
    if (first?.tls) console.log(`Certificate SHA-256 ${first.tls.fingerprint256}\n${first.tls.ca}`);
    if (control) console.log(`Faults: curl -X PATCH ${control.url}/faults -d '{"faults":[{"kind":"slow","ms":2000}]}'`);
  }
  await new Promise<void>((resolve) => {
    process.once("SIGINT", () => resolve());
    process.once("SIGTERM", () => resolve());
  });
  await control?.close();
  await fleet.close();
}

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>["values"];

function fleetSettings(values: Values): FleetSettings {
  const count = wholeNumber("count", values.count);
  const port = wholeNumber("port", values.port);
  const { addresses, qemu } = values;
  const start = addresses === undefined ? null : addressNumber(addresses);
  const virtual =
    qemu === undefined
      ? null
      : {
          directory: qemu,
          memoryMiB: wholeNumber("qemu-memory", values["qemu-memory"]),
          diskMiB: wholeNumber("qemu-disk", values["qemu-disk"]),
          netdev: values["qemu-netdev"],
          firmware: firmwareOf(values["qemu-firmware"]),
        };
  return {
    count,
    tls: values.tls,
    latency: latencyOf(values.latency),
    credentials: { userName: values.user, password: values.password },
    address: (number) =>
      start === null
        ? { host: "127.0.0.1", port: port === 0 ? 0 : port + number - 1 }
        : { host: addressText(start + number - 1), port },
    ...(virtual && {
      systems: () => ({ drives: [qemuDrive(virtual)] }),
      machine: (number, identity) => qemuMachine(virtual, number, identity),
    }),
  };
}

function wholeNumber(option: string, text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`--${option} takes a whole number, not "${text}".`);
  return Number(text);
}

function firmwareOf(text: string): "BIOS" | "UEFI" {
  if (text === "BIOS" || text === "UEFI") return text;
  throw new Error(`--qemu-firmware takes BIOS or UEFI, not "${text}".`);
}

function latencyOf(text: string): "none" | "measured" | number {
  if (text === "none" || text === "measured") return text;
  if (/^\d+$/.test(text)) return Number(text);
  throw new Error(`--latency takes none, measured or milliseconds, not "${text}".`);
}

/** An IPv4 address of loopback as a number, so that the next address is the next number. */
function addressNumber(text: string): number {
  const parts = text.split(".").map(Number);
  const isLoopback = parts.length === 4 && parts[0] === 127 && parts.every((part) => part >= 0 && part <= 255);
  if (!isLoopback) throw new Error(`--addresses takes a loopback address such as 127.0.30.1, not "${text}".`);
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}

const addressText = (number: number) => [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join(".");

function rowOf({ name, url, traits, system }: SimulatedBmc, preset: string): Row {
  const { serialNumber, macs } = system;
  return { name, preset, url, system: `/redfish/v1/Systems/${traits.ids.system}`, serialNumber, mac: macs[0] ?? "" };
}

function tableOf(rows: readonly Row[]): string {
  const columns = ["name", "preset", "url", "system", "serialNumber", "mac"] as const;
  const lines = [columns.map(String), ...rows.map((row) => columns.map((column) => row[column]))];
  const widths = columns.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
