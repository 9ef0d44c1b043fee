/**
 * Parses the output of ipmitool about a machine, in the terms that the inventories of all drivers share
 * (docs/drivers.md). Pure; ignores unknown lines.
 */

import { isFiller } from "../bmc-settings.ts";

/** From `fru print 0`. Fields that the BMC does not report are omitted. */
export type Inventory = {
  readonly manufacturer?: string;
  readonly model?: string;
  readonly serial?: string;
  readonly partNumber?: string;
  readonly assetTag?: string;
  readonly chassis?: readonly { readonly type?: string; readonly serial?: string; readonly partNumber?: string }[];
  readonly board?: {
    readonly manufacturer?: string;
    readonly model?: string;
    readonly serial?: string;
    readonly partNumber?: string;
  };
};

export type BmcInfo = {
  readonly firmwareVersion?: string;
  readonly ipmiVersion?: string;
  readonly manufacturerId?: number;
  readonly productId?: number;
};

export type SensorStatus = "OK" | "WARNING" | "CRITICAL" | "UNKNOWN";

export type Sensor = {
  readonly name: string;
  /** "Temperature", "Fan", "Voltage" …; only for sensors that measure. */
  readonly kind?: string;
  /** Null if the sensor cannot be read, or reports states instead of a value. */
  readonly value: number | null;
  readonly unit: string | null;
  readonly status: SensorStatus;
  /** Critical thresholds in the record of the sensor, in its unit; only those that it has. */
  readonly critical?: { readonly lower?: number; readonly upper?: number };
  /** The states, in the words of ipmitool; only for sensors that report states. */
  readonly state?: string;
};

/** Parses `fru print 0`. If the text lists several devices (`fru print`), the first is the machine. */
export function parseFru(text: string): Inventory {
  const fields = keyedLines(text.split(/^FRU Device Description.*$/m).find((part) => part.trim() !== "") ?? "");
  const field = (...names: string[]): string | undefined =>
    names.map((name) => fields.get(name)).find((value) => value !== undefined && !isFiller(value));
  const board = present({
    manufacturer: field("Board Mfg"),
    model: field("Board Product"),
    serial: field("Board Serial"),
    partNumber: field("Board Part Number"),
  });
  const chassis = present({
    type: field("Chassis Type"),
    serial: field("Chassis Serial"),
    partNumber: field("Chassis Part Number"),
  });
  return present({
    manufacturer: field("Product Manufacturer", "Board Mfg"),
    model: field("Product Name", "Board Product"),
    serial: field("Product Serial", "Chassis Serial"),
    partNumber: field("Product Part Number", "Chassis Part Number"),
    assetTag: field("Product Asset Tag"),
    chassis: Object.keys(chassis).length === 0 ? undefined : [chassis],
    board: Object.keys(board).length === 0 ? undefined : board,
  });
}

/** Parses `mc info`. */
export function parseBmcInfo(text: string): BmcInfo {
  const fields = keyedLines(text);
  const number = (name: string): number | undefined => {
    const digits = /^\d+/.exec(fields.get(name) ?? "")?.[0];
    return digits === undefined ? undefined : Number(digits);
  };
  return present({
    firmwareVersion: fields.get("Firmware Revision"),
    ipmiVersion: fields.get("IPMI Version"),
    manufacturerId: number("Manufacturer ID"),
    productId: number("Product ID"),
  });
}

// Fields are not quoted, so a name can contain commas. The position of the status word identifies the other fields.
// Sensors that measure: name,value,unit,status,entity,entity name,kind,nominal,normal minimum,normal maximum, then the
// upper and the lower thresholds: non-recoverable, critical, non-critical; then minimum and maximum.
// Sensors that report states: name,number"h",status,entity,states
const MEASURED = /^(.+?),(-?[\d.]*|na),([^,]*),([a-z]{2,3})(?:,([^,]*))?(?:,([^,]*))?(?:,([^,]*))?(?:,(.*))?$/;
const DISCRETE = /^(.+?),[0-9A-F]{2}h,([a-z]{2,3})(?:,[\d.]*)?(?:,(.*))?$/;

/** Parses `-v -c sdr elist`; keeps the order of the BMC. */
export function parseSensors(text: string): Sensor[] {
  return text
    .split("\n")
    .map((line) => parseSensor(line.trimEnd()))
    .filter((sensor) => sensor !== undefined);
}

function parseSensor(line: string): Sensor | undefined {
  const discrete = DISCRETE.exec(line);
  if (discrete !== null) {
    const [, name = "", status = "", states = ""] = discrete;
    const state = states.trim();
    return { name: name.trim(), value: null, unit: null, status: sensorStatus(status), ...(state !== "" && { state }) };
  }
  const measured = MEASURED.exec(line);
  if (measured === null) return undefined;
  const [, name = "", reading = "", rawUnit = "", status = "", , , rawKind = "", limits = ""] = measured;
  const value = reading === "" ? NaN : Number(reading);
  // Older versions print the percent flag before every unit: "% degrees C".
  const unit = rawUnit.trim().replace(/^% (?=.)/, "");
  const kind = rawKind.trim();
  return {
    name: name.trim(),
    ...(kind !== "" && { kind }),
    value: Number.isFinite(value) ? value : null,
    unit: unit === "" ? null : unit,
    status: sensorStatus(status),
    ...criticalOf(limits.split(",")),
  };
}

function criticalOf([, , , , upper = "", , , lower = ""]: readonly string[]): Pick<Sensor, "critical"> {
  const number = (text: string) => (/^-?[\d.]+$/.test(text) ? Number(text) : undefined);
  const critical = present({ lower: number(lower), upper: number(upper) });
  return Object.keys(critical).length === 0 ? {} : { critical };
}

/** The worst status of a sensor; undefined if none has one. */
export function healthOf(sensors: readonly Sensor[]): Exclude<SensorStatus, "UNKNOWN"> | undefined {
  const worst = ["CRITICAL", "WARNING", "OK"] as const;
  return worst.find((status) => sensors.some((sensor) => sensor.status === status));
}

/** ipmitool prints nc, cr or nr (non-critical, critical, non-recoverable), with l or u for the lower or upper bound. */
function sensorStatus(word: string): SensorStatus {
  if (word === "ok") return "OK";
  if (/^[lu]?nc$/.test(word)) return "WARNING";
  if (/^[lu]?(cr|nr)$/.test(word)) return "CRITICAL";
  return "UNKNOWN";
}

/** Lines "Key  : value"; the first of equal keys is used. */
function keyedLines(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split("\n")) {
    const colon = line.indexOf(" : ");
    const key = line.slice(0, colon).trim();
    const value = line.slice(colon + 3).trim();
    if (colon > 0 && value !== "" && !fields.has(key)) fields.set(key, value);
  }
  return fields;
}

type Present<T> = { [Key in keyof T]?: Exclude<T[Key], undefined> };

function present<T extends Record<string, unknown>>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T>;
}
