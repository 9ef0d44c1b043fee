/**
 * The System Event Log. The entries are read without `-v`, which would omit the name of the sensor and the time of day;
 * the login has been tried before with `-v`, so a failed one has been reported with its reason.
 */
import type { Call } from "../../src/drivers/driver.ts";
import type { Ipmitool } from "./ipmitool.ts";
import type { IpmiSettings } from "./settings.ts";

/** The newest entries; a BMC holds up to some thousands, and each takes a request. */
const ENTRIES_MAX = 100;
/** The names of the sensors are read first: hundreds take a minute or more on a slow BMC. */
const ENTRIES_SECONDS = 150;

export type LogEntry = {
  /** Number of the record, in hexadecimal as the BMC shows it. */
  readonly id: string;
  /** In UTC; null if the clock of the BMC was not set, or if the record has no time. */
  readonly time: string | null;
  /** Type and name of the sensor; null for a record of the manufacturer. */
  readonly sensor: string | null;
  readonly description: string;
  readonly asserted?: boolean;
  /** Value and threshold, in the words of ipmitool. */
  readonly reading?: string;
};

export type LogState = {
  /** Number of entries in the log of the BMC. */
  readonly total: number;
  /** Null if the BMC does not report it. */
  readonly percentUsed: number | null;
  /** True if the BMC has dropped entries because the log was full. */
  readonly overflow: boolean;
};

export async function readEventLog(ipmitool: Ipmitool, call: Call<IpmiSettings>) {
  const state = await readLogState(ipmitool, call);
  if (state.total === 0) return { ...state, entries: [] };
  const text = await ipmitool.run(call, {
    task: "report its event log",
    words: ["-c", "sel", "elist", "last", String(ENTRIES_MAX)],
    expect: /,/,
    acceptPartial: true,
    terse: true,
    seconds: ENTRIES_SECONDS,
  });
  return { ...state, entries: parseEventLog(text).slice(-ENTRIES_MAX) };
}

/** Returns the number of entries that the log had. The BMC erases them in the background. */
export async function clearEventLog(ipmitool: Ipmitool, call: Call<IpmiSettings>): Promise<number> {
  const { total } = await readLogState(ipmitool, call);
  const words = ["sel", "clear"];
  await ipmitool.run(call, { task: "clear its event log", words, expect: /^Clearing SEL/m });
  return total;
}

async function readLogState(ipmitool: Ipmitool, call: Call<IpmiSettings>): Promise<LogState> {
  const words = ["sel", "info"];
  return parseLogState(
    await ipmitool.run(call, { task: "report the state of its event log", words, expect: /^Entries +:/m }),
  );
}

/** Parses `sel info`. */
export function parseLogState(text: string): LogState {
  const percent = /^Percent Used +: (\d+)%/m.exec(text)?.[1];
  return {
    total: Number(/^Entries +: (\d+)/m.exec(text)?.[1] ?? 0),
    percentUsed: percent === undefined ? null : Number(percent),
    overflow: /^Overflow +: true/m.test(text),
  };
}

/** Parses `-c sel elist`; keeps the order of the BMC. Fields are not quoted: the direction identifies the others. */
export function parseEventLog(text: string): LogEntry[] {
  return text.split("\n").flatMap((line): LogEntry[] => {
    const [id = "", date = "", time = "", ...rest] = line.split(",").map((field) => field.trim());
    if (!/^[0-9a-f]{1,4}$/i.test(id) || rest.length === 0) return [];
    const head = { id, time: timeOf(date, time) };
    const direction = rest.findIndex((field) => field === "Asserted" || field === "Deasserted");
    if (direction < 1) return [{ ...head, sensor: null, description: rest.join(", ") }];
    const reading = rest.slice(direction + 1).join(", ");
    return [
      {
        ...head,
        sensor: rest.slice(0, Math.max(1, direction - 1)).join(", "),
        description: rest[direction - 1] ?? "",
        asserted: rest[direction] === "Asserted",
        ...(reading !== "" && { reading }),
      },
    ];
  });
}

/** "11/23/26", "02:30:01 UTC"; older versions print four digits of the year and no zone. ipmitool runs with TZ=UTC. */
function timeOf(date: string, time: string): string | null {
  const day = /^(\d\d)\/(\d\d)\/(?:20)?(\d\d)$/.exec(date);
  const clock = /^(\d\d:\d\d:\d\d)(?: UTC)?$/.exec(time);
  return day && clock ? `20${day[3]}-${day[1]}-${day[2]}T${clock[1]}Z` : null;
}
