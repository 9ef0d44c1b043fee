/**
 * An archive in the format newc, as the kernel unpacks it into the ramdisk. The files are sorted and all times are 0,
 * so the same files always give the same bytes. All files belong to root, also if another user builds.
 */
import { readFileSync } from "node:fs";
import { dirname } from "node:path";

type Entry =
  | { readonly kind: "folder" }
  | { readonly kind: "link"; readonly target: string }
  | { readonly kind: "file"; readonly mode: number; readonly content: Buffer };

const FOLDER = 0o040755;
const LINK = 0o120777;
const FILE = 0o100000;
const ALIGNMENT = 4;

export class Archive {
  readonly #entries = new Map<string, Entry>();

  /** Paths have no leading slash. */
  folder(path: string): void {
    if (path === "." || path === "") return;
    this.folder(dirname(path));
    this.#entries.set(path, { kind: "folder" });
  }

  link(path: string, target: string): void {
    this.folder(dirname(path));
    this.#entries.set(path, { kind: "link", target });
  }

  file(path: string, content: Buffer | string, mode = 0o644): void {
    this.folder(dirname(path));
    this.#entries.set(path, { kind: "file", mode, content: Buffer.from(content) });
  }

  copy(path: string, source: string, mode = 0o644): void {
    this.file(path, readFileSync(source), mode);
  }

  has(path: string): boolean {
    return this.#entries.has(path);
  }

  bytes(): Buffer {
    const parts: Buffer[] = [];
    const sorted = [...this.#entries].toSorted(([a], [b]) => (a < b ? -1 : 1));
    sorted.forEach(([path, entry], index) => {
      parts.push(...record(path, index + 1, entry));
    });
    parts.push(...record("TRAILER!!!", 0, { kind: "file", mode: 0, content: Buffer.alloc(0) }));
    return Buffer.concat(parts);
  }
}

function modeOf(entry: Entry): number {
  if (entry.kind === "folder") return FOLDER;
  return entry.kind === "link" ? LINK : FILE | entry.mode;
}

function record(path: string, inode: number, entry: Entry): Buffer[] {
  const name = Buffer.from(`${path}\0`);
  const content = entry.kind === "file" ? entry.content : Buffer.from(entry.kind === "link" ? entry.target : "");
  const links = entry.kind === "folder" ? 2 : 1;
  const fields = [inode, modeOf(entry), 0, 0, links, 0, content.length, 0, 0, 0, 0, name.length, 0];
  const head = fields.map((value) => value.toString(16).toUpperCase().padStart(8, "0")).join("");
  return [padded(Buffer.concat([Buffer.from(`070701${head}`), name])), padded(content)];
}

function padded(part: Buffer): Buffer {
  const rest = part.length % ALIGNMENT;
  return rest === 0 ? part : Buffer.concat([part, Buffer.alloc(ALIGNMENT - rest)]);
}
