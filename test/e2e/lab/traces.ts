/** Places in which a secret could have left a copy: processes, core dumps, tables, files. */
import { spawn } from "node:child_process";
import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { passwordOf, USER } from "../../../src/store/postgres/embedded-setup.ts";
import { socketFolderOf } from "../../../src/store/postgres/embedded-folder.ts";
import { eventually } from "../../support/eventually.ts";
import { run } from "./commands.ts";

const SAMPLE_MS = 250;
const PORT = 5432;
/** The type of a segment of an ELF file that has notes. */
const PT_NOTE = 4;
/** Of a process that is normally killed before. */
const ENDS_SECONDS = 60;
/** Texts that base64 cannot be recognized by are shorter. */
const BASE64_MIN = 8;

/** A text as it can occur: as it is, and within a longer text in base64. */
export function formsOf(secret: string): readonly string[] {
  // A text in base64 depends on its position in a group of three bytes; its first and last characters on neighbours.
  const encoded = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]).toString("base64");
    const whole = Math.floor((before + secret.length) / 3) * 4;
    return text.slice(before === 0 ? 0 : 4, whole);
  });
  return [secret, ...encoded.filter((text) => text.length >= BASE64_MIN)];
}

export interface Processes extends AsyncDisposable {
  /** Command lines since the start, each once. */
  readonly seen: ReadonlySet<string>;
}

/** Looks at the command lines of all processes of this namespace, four times a second. */
export function watchProcesses(): Processes {
  const seen = new Set<string>();
  const stop = new AbortController();
  const look = () => {
    for (const name of readdirSync("/proc")) {
      if (!/^\d+$/.test(name)) continue;
      try {
        seen.add(readFileSync(join("/proc", name, "cmdline"), "utf8").replaceAll("\0", " "));
      } catch {
        // It has ended.
      }
    }
  };
  const loop = (async () => {
    while (!stop.signal.aborted) {
      look();
      await delay(SAMPLE_MS, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  })();
  return {
    seen,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await loop;
    },
  };
}

/** A process, and all that it and its children have started. */
export function processesOf(pid: number): readonly number[] {
  const tree = [pid];
  for (const parent of tree) tree.push(...childrenOf(parent));
  return tree;
}

function childrenOf(pid: number): readonly number[] {
  try {
    // Each thread has a list of its own.
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
}

/**
 * Core dumps of those processes that have not ended meanwhile, as the kernel would write them, without their registers:
 * these are in every dump, and can hold the few bytes that the processor has copied last (docs/operations.md).
 */
export async function dumpCores(pids: readonly number[], folder: string): Promise<readonly string[]> {
  mkdirSync(folder, { recursive: true });
  const files: string[] = [];
  for (const pid of pids) {
    await run("gcore", ["-o", join(folder, "core"), String(pid)]).catch((error: unknown) => {
      if (existsSync(`/proc/${pid}`)) throw error;
    });
    const file = join(folder, `core.${pid}`);
    if (!existsSync(file)) continue;
    clearRegisters(file);
    files.push(file);
  }
  return files;
}

/** Overwrites the notes of a core dump: registers, and facts about the process. Their place is in elf(5). */
function clearRegisters(file: string): void {
  const core = openSync(file, "r+");
  try {
    const read = (position: number, length: number) => {
      const bytes = Buffer.alloc(length);
      readSync(core, bytes, 0, length, position);
      return bytes;
    };
    const header = read(0, 64);
    const [first, size, count] = [Number(header.readBigUInt64LE(32)), header.readUInt16LE(54), header.readUInt16LE(56)];
    for (let index = 0; index < count; index += 1) {
      const segment = read(first + index * size, size);
      if (segment.readUInt32LE(0) !== PT_NOTE) continue;
      const [offset, length] = [Number(segment.readBigUInt64LE(8)), Number(segment.readBigUInt64LE(32))];
      writeSync(core, Buffer.alloc(length), 0, length, offset);
    }
  } finally {
    closeSync(core);
  }
}

/** Whether a text is in the core dump of a process that has it in its environment, and does not leave out memory. */
export async function isInCore(text: string, folder: string): Promise<boolean> {
  const shell = 'echo 0x33 > /proc/self/coredump_filter && exec sleep "$0"';
  const child = spawn("sh", ["-c", shell, String(ENDS_SECONDS)], { env: { ...process.env, TEXT: text } });
  try {
    const { pid = 0 } = child;
    const isStarted = () => readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "sleep";
    await eventually("the process to dump has started", isStarted);
    const found = await searchFiles(await dumpCores([pid], folder), [text]);
    return found.length > 0;
  } finally {
    child.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Names of the tables that contain one of the texts, and the number of tables. */
export async function searchTables(
  folder: string,
  texts: readonly string[],
): Promise<{ readonly count: number; readonly found: readonly string[] }> {
  const data = join(folder, "data/postgres");
  const password = passwordOf(data);
  const sql = postgres({
    host: socketFolderOf(data),
    port: PORT,
    user: USER,
    database: "postgres",
    max: 1,
    ...(password !== null && { password }),
  });
  try {
    const tables = await sql<{ name: string }[]>`
      select format('%I.%I', table_schema, table_name) as name from information_schema.tables
      where table_schema not in ('pg_catalog', 'information_schema') and table_type = 'BASE TABLE'`;
    const found: string[] = [];
    for (const { name } of tables) {
      const rows = await sql.unsafe<{ row: string }[]>(`select row_to_json(t)::text as row from ${name} t`);
      if (rows.some(({ row }) => texts.some((text) => row.includes(text)))) found.push(name.replace(/^.*\./, ""));
    }
    return { count: tables.length, found: found.toSorted() };
  } finally {
    await sql.end();
  }
}

/** Files below a folder that contain one of the texts. */
export async function searchFiles(files: readonly string[], texts: readonly string[]): Promise<readonly string[]> {
  const wanted = texts.map((text) => Buffer.from(text));
  const kept = Math.max(...wanted.map(({ length }) => length));
  const found: string[] = [];
  for (const file of files) {
    let rest = Buffer.alloc(0);
    for await (const chunk of createReadStream(file, { highWaterMark: 2 ** 20 }) as AsyncIterable<Buffer>) {
      const part = Buffer.concat([rest, chunk]);
      if (wanted.some((text) => part.includes(text))) {
        found.push(file);
        break;
      }
      rest = part.subarray(-kept);
    }
  }
  return found;
}

/** Regular files below a folder, in every depth. */
export function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
}
