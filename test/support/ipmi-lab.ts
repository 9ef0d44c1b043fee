/**
 * Simulated IPMI BMCs for tests and scripts: one `ipmi_sim` process (Debian package openipmi) for each, with power,
 * boot device, FRU data and sensors, whose state is plain files in a temporary folder.
 *
 * A BMC is RUNNING (answers), FROZEN (its process is stopped: packets pile up unanswered; `thaw` leaves it) or STOPPED
 * (for good). Root gets an address of its own for every BMC, 127.0.X.Y port 623; others get ports of 127.0.0.1.
 * Dispose of a lab after use (`await using lab = await startIpmiLab({ count: 3 })`).
 *
 * How ipmi_sim is configured, and that names of sensors need a lower-case letter and the board area a file id field,
 * was found out in the project's hardware notes.
 */
import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createSocket } from "node:dgram";
import { rmSync } from "node:fs";
import { chmod, mkdir, mkdtemp, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { missingPrograms } from "../../packages/agent/build/programs.ts";
import type { Needed } from "../../packages/agent/build/programs.ts";

/** Programs of a lab, and their Debian packages. */
export const IPMI_PROGRAMS: Needed = { ipmi_sim: "openipmi", sdrcomp: "openipmi", ipmitool: "ipmitool" };
const USERNAME = "admin";
const PASSWORD = "lab-secret";
const READY_SECONDS = 15;

/** One command to a BMC: milliseconds since 1970, and its words. */
export interface JournalLine {
  readonly at: number;
  /** "power on", "power off", "reset", "soft off", "boot pxe", "refused power on" … */
  readonly event: string;
}

export interface SimulatedBmc {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly username: string;
  readonly password: string;
  /** The one cipher suite that is sound and that ipmi_sim knows. */
  readonly cipherSuite: 3;
  /** The product serial number in its FRU data. */
  readonly serial: string;
  readonly pid: number;
  /** Power as the machine has it, asked without the BMC. */
  power(): Promise<"ON" | "OFF">;
  /** Changes the power behind the BMC's back, as the power button does. */
  setPower(state: "ON" | "OFF"): Promise<void>;
  /** All commands to the BMC, in order. */
  journal(): Promise<readonly JournalLine[]>;
  /** From now on every chassis command takes that long; 0: none does. */
  setDelay(seconds: number): Promise<void>;
  /** Boot device of the next start, once: "pxe", "cdrom", "default" for the disk, "none" without an override. */
  takeBootDevice(): Promise<string>;
  /**
   * From now on a shell command is run for each command to the BMC, with the event as last argument; the BMC answers
   * when it has ended, and refuses if it fails.
   */
  setHook(command: string): Promise<void>;
  /** Whether the BMC says no to every command that changes something. */
  setRefusing(refusing: boolean): Promise<void>;
  /** Whether the operating system ignores a request to shut down. */
  setDeaf(deaf: boolean): Promise<void>;
  freeze(): void;
  thaw(): void;
  stop(): Promise<void>;
}

export interface IpmiLab extends AsyncDisposable {
  readonly bmcs: readonly SimulatedBmc[];
  /** Ends all processes and removes the folder. */
  stop(): Promise<void>;
}

/** Throws a sentence that names what to install, if something is missing. */
export function demandIpmiPrograms(): void {
  const missing = missingPrograms(IPMI_PROGRAMS);
  if (missing !== null) throw new Error(missing);
}

/** Starts BMCs named "bmc-1", "bmc-2" … and returns when each answers. At most 250. */
export async function startIpmiLab(options: { readonly count: number }): Promise<IpmiLab> {
  demandIpmiPrograms();
  const folder = await mkdtemp(join(tmpdir(), "ostler-ipmi-lab-"));
  const processes: ChildProcess[] = [];
  // Should the test process end without disposing, nothing outlives it.
  const sweep = () => {
    processes.forEach((each) => each.kill("SIGKILL"));
    rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", sweep);
  const stop = async () => {
    await Promise.all(processes.map(end));
    process.removeListener("exit", sweep);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const script = join(folder, "chassis.sh");
    await writeFile(script, CHASSIS_SCRIPT, { mode: 0o755 });
    const places = await freePlaces(options.count);
    const bmcs = await Promise.all(
      places.map(async (place, index) => {
        const identity = { ...place, name: `bmc-${index + 1}`, serial: `LAB${String(index + 1).padStart(5, "0")}` };
        const home = join(folder, identity.name);
        await writeBmc({ ...identity, home, script });
        const child = await run(home);
        processes.push(child);
        await untilReady(identity, child, home);
        return handle(identity, child, home);
      }),
    );
    return { bmcs, stop, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface Place {
  readonly address: string;
  readonly port: number;
}

interface Identity extends Place {
  readonly name: string;
  readonly serial: string;
}

function handle(identity: Identity, child: ChildProcess, home: string): SimulatedBmc {
  const pid = child.pid;
  if (pid === undefined) throw new Error(`BMC ${identity.name} has no process.`);
  const flag = (name: string, value: string | undefined) =>
    value === undefined ? rm(join(home, name), { force: true }) : put(join(home, name), value);
  return {
    ...identity,
    username: USERNAME,
    password: PASSWORD,
    cipherSuite: 3,
    pid,
    async power() {
      return (await readFile(join(home, "power"), "utf8")).trim() === "on" ? "ON" : "OFF";
    },
    setPower: (state) => put(join(home, "power"), state.toLowerCase()),
    async journal() {
      const text = await readFile(join(home, "journal"), "utf8").catch(() => "");
      return text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => {
          const space = line.indexOf(" ");
          return { at: Number(line.slice(0, space)), event: line.slice(space + 1) };
        });
    },
    setDelay: (seconds) => flag("delay", seconds > 0 ? String(seconds) : undefined),
    async takeBootDevice() {
      const device = await readFile(join(home, "boot"), "utf8").catch(() => "none");
      await put(join(home, "boot"), "none");
      return device.trim();
    },
    async setHook(command) {
      await put(join(home, "hook"), `#!/bin/sh\nexec ${command} "$1"\n`);
      await chmod(join(home, "hook"), 0o755);
    },
    setRefusing: (refusing) => flag("refusing", refusing ? "" : undefined),
    setDeaf: (deaf) => flag("deaf", deaf ? "" : undefined),
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    stop: () => end(child),
  };
}

/** Writes a file in one go: the chassis script never reads half of it. */
async function put(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text);
  await rename(`${file}.new`, file);
}

async function run(home: string): Promise<ChildProcess> {
  await using log = await open(join(home, "log"), "a");
  const words = ["-n", "-c", join(home, "lan.conf"), "-f", join(home, "bmc.emu"), "-s", join(home, "state")];
  return spawn("ipmi_sim", words, { stdio: ["ignore", log.fd, log.fd] });
}

/** SIGKILL reaches a frozen process too, and ipmi_sim has nothing to save. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await gone;
}

async function untilReady(identity: Identity, child: ChildProcess, home: string): Promise<void> {
  const giveUp = Date.now() + READY_SECONDS * 1000;
  while (child.exitCode === null && child.signalCode === null && Date.now() < giveUp) {
    if (await answers(identity, 50)) return;
  }
  const log = await readFile(join(home, "log"), "utf8").catch(() => "");
  throw new Error(
    `Simulated BMC ${identity.name} at ${identity.address}:${identity.port} does not answer: ${log.trim().slice(-500) || "no log"}`,
  );
}

/** Asks for the authentication capabilities of the channel, which needs no login. */
function answers({ address, port }: Place, milliseconds: number): Promise<boolean> {
  const session = [0x06, 0x00, 0xff, 0x07, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
  const request = [0x20, 0x18, 0xc8, 0x81, 0x00, 0x38, 0x8e, 0x04, 0xb5];
  return new Promise((resolve) => {
    const socket = createSocket("udp4");
    // A refused datagram comes back at once: then the rest of the time is the pause before the next question.
    socket.on("error", () => undefined);
    const timer = setTimeout(() => socket.close(), milliseconds);
    let answered = false;
    socket.on("message", () => {
      answered = true;
      clearTimeout(timer);
      socket.close();
    });
    socket.on("close", () => resolve(answered));
    socket.send(Uint8Array.from([...session, ...request]), port, address);
  });
}

/** Addresses without a listener. */
async function freePlaces(count: number): Promise<Place[]> {
  if (count < 1 || count > 250) throw new Error(`A lab has 1 to 250 BMCs, not ${count}.`);
  if (process.getuid?.() !== 0) {
    return Promise.all(
      Array.from({ length: count }, async () => ({ address: "127.0.0.1", port: await bindable("127.0.0.1", 0) })),
    );
  }
  const first = 60 + Math.floor(Math.random() * 190);
  for (let step = 0; step < 190; step += 1) {
    const net = 60 + ((first - 60 + step) % 190);
    const places = Array.from({ length: count }, (_, index) => ({ address: `127.0.${net}.${index + 1}`, port: 623 }));
    const free = await Promise.all(places.map(({ address, port }) => bindable(address, port))).catch(() => undefined);
    if (free !== undefined) return places;
  }
  throw new Error("No part of 127.0.60.0 to 127.0.249.255 has port 623 free on enough addresses; stop other labs.");
}

/** Binds a UDP port for a moment and gives its number; rejects where it is taken. */
function bindable(address: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = createSocket("udp4");
    socket.once("error", reject);
    socket.bind(port, address, () => {
      const bound = socket.address().port;
      socket.close(() => resolve(bound));
    });
  });
}

// What the simulator reads

async function writeBmc(bmc: Identity & { readonly home: string; readonly script: string }): Promise<void> {
  const { home } = bmc;
  // The one place where ipmi_sim looks for the sensor records of the BMC at 0x20.
  const records = join(home, "state", "ipmi_sim", bmc.name);
  await mkdir(records, { recursive: true });
  await Promise.all([
    writeFile(join(home, "power"), "off"),
    writeFile(join(home, "fru.bin"), fruData(bmc.serial)),
    writeFile(join(home, "sensors.sdrs"), sensorRecords()),
    writeFile(join(home, "lan.conf"), lanConfiguration(bmc)),
    writeFile(join(home, "bmc.emu"), emulatorCommands(home)),
  ]);
  await promisify(execFile)("sdrcomp", ["-o", join(records, "sdr.20.main"), join(home, "sensors.sdrs")]);
}

function lanConfiguration(bmc: Identity & { readonly home: string; readonly script: string }): string {
  const roles = ["callback", "user", "operator", "admin"];
  return [
    `name "${bmc.name}"`,
    "set_working_mc 0x20",
    "startlan 1",
    `addr ${bmc.address} ${bmc.port}`,
    "priv_limit admin",
    ...roles.map((role) => `allowed_auths_${role} md5`),
    // Without a GUID it speaks IPMI 1.5 only.
    `guid ${Buffer.from(bmc.name.padEnd(16)).toString("hex").slice(0, 32)}`,
    "endlan",
    `chassis_control "${bmc.script} ${bmc.home}"`,
    `user 2 true "${USERNAME}" "${PASSWORD}" admin 10 md5`,
    "",
  ].join("\n");
}

interface SimulatedSensor {
  readonly name: string;
  /** Name and number of the sensor type. */
  readonly type: readonly [string, number];
  readonly entity: string;
  /** Raw reading, and what it is multiplied with: factor × 10^exponent. */
  readonly raw: number;
  readonly unit: string;
  readonly factor: number;
  readonly exponent: number;
  /** Raw critical thresholds. */
  readonly critical?: { readonly lower?: number; readonly upper?: number };
}

const SENSORS: readonly SimulatedSensor[] = [
  {
    name: "Inlet temp",
    type: ["Temperature", 1],
    entity: "system_board",
    raw: 23,
    unit: "degrees_C",
    factor: 1,
    exponent: 0,
  },
  {
    name: "Cpu1 temp",
    type: ["Temperature", 1],
    entity: "processor",
    raw: 51,
    unit: "degrees_C",
    factor: 1,
    exponent: 0,
    critical: { upper: 90 },
  },
  { name: "Sys fan 1", type: ["Fan", 4], entity: "fan_cooling_device", raw: 48, unit: "RPM", factor: 100, exponent: 0 },
  {
    name: "Supply 12v",
    type: ["Voltage", 2],
    entity: "power_supply",
    raw: 201,
    unit: "Volts",
    factor: 6,
    exponent: -2,
    critical: { lower: 190, upper: 210 },
  },
];

/** Number of the sensor for the presence of the power supply. */
const PRESENCE_SENSOR = SENSORS.length + 1;

function sensorRecords(): string {
  const record = (type: number, fields: Readonly<Record<string, string | number | boolean>>) =>
    [`sdr type ${type}`, ...Object.entries(fields).map(([key, value]) => `\t${key}\t${value}`), "endsdr", ""].join(
      "\n",
    );
  const owner = { sensor_owner_id: "0x20", sensor_owner_lun: 0, channel_number: 0, entity_instance: 1 };
  const measuring = SENSORS.map((sensor, index) =>
    record(1, {
      id_string: `"${sensor.name}"`,
      ...owner,
      entity_id: sensor.entity,
      sensor_number: index + 1,
      sensor_type: sensor.type[0],
      event_reading_type_code: 1,
      init_scanning: true,
      init_sensor_type: true,
      default_sensor_scan_on: true,
      analog_data_format: "unsigned",
      base_unit: sensor.unit,
      linearization: "linear",
      m: sensor.factor,
      b: 0,
      r_exp: sensor.exponent,
      sensor_minimum: 0,
      sensor_maximum: 255,
      ...thresholds(sensor),
    }),
  );
  const states = [0, 1].flatMap((state) => [
    `event${state}_state_ret`,
    `assert_event${state}`,
    `deassert_event${state}`,
  ]);
  const presence = record(2, {
    id_string: '"Supply present"',
    ...owner,
    entity_id: "power_supply",
    sensor_number: PRESENCE_SENSOR,
    sensor_type: "Entity_Presence",
    event_reading_type_code: "0x6f",
    ...Object.fromEntries(states.map((state) => [state, true])),
  });
  return [...measuring, presence].join("\n");
}

/** For a sensor that measures, bits 1 and 4 of the returned states mean that a critical threshold can be read. */
function thresholds({ critical }: SimulatedSensor): Readonly<Record<string, string | number | boolean>> {
  if (critical === undefined) return {};
  const { lower, upper } = critical;
  return {
    sensor_threshold_access: "readable",
    ...(lower !== undefined && { event1_state_ret: true, lc_thresh: lower }),
    ...(upper !== undefined && { event4_state_ret: true, uc_thresh: upper }),
  };
}

/** Records of the event log: sensor 2 rises above its upper critical threshold and returns. ipmi_sim sets the time. */
function eventRecords(): string[] {
  return [0x01, 0x81].map((direction) => {
    const time = [0, 0, 0, 0];
    const generator = [0x20, 0x00];
    const sensor = [4, 1, 2];
    const event = [direction, 0x59, 91, 90];
    const bytes = [...time, ...generator, ...sensor, ...event].map((byte) => `0x${byte.toString(16)}`);
    return `sel_add 0x20 0x02 ${bytes.join(" ")}`;
  });
}

function emulatorCommands(home: string): string {
  return [
    "mc_setbmc 0x20",
    // device id, SDRs of its own, revision, firmware 2.32, what it supports, manufacturer, product
    "mc_add 0x20 1 no-device-sdrs 1 2 50 0x9f 0 0x1001 persist_sdr",
    "sel_enable 0x20 128 0x0a",
    ...SENSORS.flatMap((sensor, index) => [
      `sensor_add 0x20 0 ${index + 1} ${sensor.type[1]} 1`,
      `sensor_set_value 0x20 0 ${index + 1} ${sensor.raw} 0`,
    ]),
    `sensor_add 0x20 0 ${PRESENCE_SENSOR} 37 0x6f`,
    `sensor_set_event_support 0x20 0 ${PRESENCE_SENSOR} enable scanning per-state ${Array(4).fill("000000000000011").join(" ")}`,
    `sensor_set_bit_clr_rest 0x20 0 ${PRESENCE_SENSOR} 0 1`,
    `mc_add_fru_data 0x20 0 ${FRU_BYTES} file 0 "${join(home, "fru.bin")}"`,
    "mc_enable 0x20",
    ...eventRecords(),
    "",
  ].join("\n");
}

const FRU_BYTES = 256;

/** FRU data as the IPMI FRU storage definition 1.0 has it: a header that points at a board and a product area. */
function fruData(serial: string): Uint8Array {
  const manufacturingDate = [0x00, 0x00, 0x00];
  const board = fruArea([25, ...manufacturingDate], ["Ostler Lab", "OL-1 board", `${serial}-B`, "OL1-B", ""]);
  const product = fruArea([25], ["Ostler Lab", "OL-1", "OL1-P", "1", serial, `asset-${serial}`, ""]);
  const header = withChecksum([1, 0, 0, 1, 1 + board.length / 8, 0, 0]);
  const data = new Uint8Array(FRU_BYTES);
  data.set([...header, ...board, ...product]);
  return data;
}

/** An area: version, length in units of 8 bytes, fixed part, texts of known length, end mark, padding, checksum. */
function fruArea(fixed: readonly number[], texts: readonly string[]): number[] {
  const LATIN_TEXT = 0xc0,
    END_OF_TEXTS = 0xc1;
  const content = [
    ...fixed,
    ...texts.flatMap((text) => [LATIN_TEXT + text.length, ...Buffer.from(text, "latin1")]),
    END_OF_TEXTS,
  ];
  const units = Math.ceil((2 + content.length + 1) / 8);
  const padding = Array<number>(units * 8 - 3 - content.length).fill(0);
  return withChecksum([1, units, ...content, ...padding]);
}

/** Adds the byte that makes the sum of all a multiple of 256. */
function withChecksum(bytes: readonly number[]): number[] {
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  return [...bytes, (256 - (sum % 256)) % 256];
}

/**
 * The program that ipmi_sim runs for the chassis: `chassis.sh HOME get NAME…` prints "name:value", `… set NAME VALUE`
 * acts.
 */
const CHASSIS_SCRIPT = `#!/bin/sh
home=$1 verb=$2
shift 2
if [ -e "$home/delay" ]; then sleep "$(cat "$home/delay")"; fi
note() { echo "$(date +%s%3N) $*" >>"$home/journal"; }
keep() { echo "$2" >"$home/$1.kept" && mv "$home/$1.kept" "$home/$1"; }
onoff() { if [ "$1" = 1 ]; then echo on; else echo off; fi; }

if [ "$verb" = get ]; then
  for what in "$@"; do
    case $what in
      power) if [ "$(cat "$home/power")" = on ]; then echo power:1; else echo power:0; fi ;;
      boot) echo "boot:$(cat "$home/boot" 2>/dev/null || echo none)" ;;
      *) echo "unknown: $what"; exit 1 ;;
    esac
  done
  exit 0
fi

case $1 in
  power) event="power $(onoff "$2")" ;;
  reset) event=reset ;;
  shutdown) event="soft off" ;;
  boot) event="boot $2" ;;
  identify) event=identify ;;
  *) echo "unknown: $1"; exit 1 ;;
esac
if [ -e "$home/refusing" ]; then note "refused $event"; echo refused; exit 1; fi
note "$event"
case $1 in
  power) keep power "$(onoff "$2")" ;;
  shutdown) if [ ! -e "$home/deaf" ]; then keep power off; fi ;;
  boot) keep boot "$2" ;;
esac
if [ -x "$home/hook" ]; then "$home/hook" "$event" || exit 1; fi
exit 0
`;
