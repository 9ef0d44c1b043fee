/**
 * Reads the file of an image once: its size, its checksum and, unpacked on the way, the size of its content. It can be
 * copied at the same time. Files are larger than the memory, so nothing is kept but their beginnings.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { FileHandle } from "node:fs/promises";
import type { Readable, Writable } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { ConfigError } from "../config/values.ts";
import { messageOf } from "../errors.ts";
import type { ImageFormat } from "../lifecycle/images.ts";
import { HEAD_BYTES, contentOf, formatOf } from "./image-format.ts";

export interface ReadImage {
  readonly format: ImageFormat;
  readonly sizeBytes: number;
  /** Null: xz is not installed here. */
  readonly diskBytes: number | null;
  /** By algorithm, in hexadecimal. */
  readonly checksums: { readonly sha256: string; readonly sha512: string };
}

interface ReadOptions {
  /** Receives a copy of the file. */
  readonly target?: FileHandle;
  /** Called with the number of bytes so far. */
  readonly onBytes?: (bytes: number) => void;
}

type Chunks = AsyncIterator<Buffer>;

/** The beginning of a file, and the rest of it. */
export interface OpenedFile {
  readonly head: Buffer;
  readonly rest: Chunks;
}

export async function openFile(source: AsyncIterable<Uint8Array>): Promise<OpenedFile> {
  const rest = buffersOf(source);
  const parts: Buffer[] = [];
  for (let length = 0; length < HEAD_BYTES;) {
    const next = await rest.next();
    if (next.done) break;
    parts.push(next.value);
    length += next.value.length;
  }
  return { head: Buffer.concat(parts), rest };
}

async function* buffersOf(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void> {
  for await (const chunk of source) yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

/** Throws a `ConfigError` for a file that machines cannot write to a disk. */
export async function readImage({ head, rest }: OpenedFile, options: ReadOptions = {}): Promise<ReadImage> {
  const format = formatOf(head);
  if (format === null || typeof format === "object") throw unusable("The file", format);
  const [sha256, sha512] = [createHash("sha256"), createHash("sha512")];
  const content = unpackedContent(format);
  let sizeBytes = 0;
  try {
    for await (const chunk of allOf({ head, rest })) {
      sha256.update(chunk);
      sha512.update(chunk);
      sizeBytes += chunk.length;
      await options.target?.writeFile(chunk);
      await content?.write(chunk);
      options.onBytes?.(sizeBytes);
    }
    const unpacked = content ? await content.end() : { head, bytes: sizeBytes };
    checkContent(unpacked, format);
    const checksums = { sha256: sha256.digest("hex"), sha512: sha512.digest("hex") };
    return { format, sizeBytes, diskBytes: unpacked?.bytes ?? null, checksums };
  } finally {
    content?.close();
  }
}

export async function* allOf({ head, rest }: OpenedFile): AsyncGenerator<Buffer, void> {
  if (head.length > 0) yield head;
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
}

function checkContent(unpacked: Unpacked | null, format: ImageFormat): void {
  if (unpacked === null) return;
  const content = contentOf(unpacked.head);
  if (content !== "RAW") throw unusable(format === "RAW" ? "The file" : "The content of the file", content);
}

function unusable(what: string, format: ReturnType<typeof formatOf>): ConfigError {
  const found = format === null ? "has no partition table" : `is ${typeof format === "object" ? format.name : format}`;
  return new ConfigError(
    `${what} ${found}, so it is not the content of a disk. Use a raw disk image, or one packed with gzip, xz or zstd. qcow2 is converted with --store.`,
  );
}

// ---- unpacking

interface Unpacked {
  readonly head: Buffer;
  readonly bytes: number;
}

interface Unpacker {
  write(chunk: Buffer): Promise<void>;
  /** Null: the program that unpacks is missing. */
  end(): Promise<Unpacked | null>;
  close(): void;
}

/** The content of a packed file; undefined for one that is not packed. */
function unpackedContent(format: ImageFormat): Unpacker | undefined {
  switch (format) {
    case "RAW":
      return undefined;
    case "RAW_GZ": {
      const gunzip = createGunzip();
      return unpackerOf(gunzip, gunzip);
    }
    case "RAW_ZST": {
      const unzstd = createZstdDecompress();
      return unpackerOf(unzstd, unzstd);
    }
    case "RAW_XZ": {
      const xz = spawn("xz", ["--decompress", "--stdout"], { stdio: ["pipe", "pipe", "ignore"] });
      const ended = once(xz, "close").then(([code]) => {
        if (code !== 0) throw new Error(`xz exited with code ${String(code)}`);
      });
      return unpackerOf(xz.stdin, xz.stdout, ended);
    }
  }
}

/** `ended`: rejects if the unpacking failed although its output ended. */
function unpackerOf(input: Writable, output: Readable, ended: Promise<unknown> = Promise.resolve()): Unpacker {
  let failure: unknown;
  const fail = (error: unknown) => {
    failure ??= error;
    input.destroy();
  };
  const counted = Promise.all([countBytes(output), ended]).then(([found]) => found);
  counted.catch(fail);
  input.on("error", fail);
  const isMissing = () => failure instanceof Error && "code" in failure && failure.code === "ENOENT";
  return {
    async write(chunk) {
      if (failure !== undefined || input.destroyed || input.write(chunk)) return;
      await drained(input).catch(fail);
    },
    async end() {
      if (!input.destroyed) input.end();
      try {
        return await counted;
      } catch (error) {
        fail(error);
        if (isMissing()) return null;
        throw new ConfigError(`The file is damaged: it cannot be unpacked (${messageOf(failure)}).`, { cause: error });
      }
    },
    close() {
      input.destroy();
      output.destroy();
    },
  };
}

/** Resolves when a stream takes more, or takes nothing any more. */
async function drained(input: Writable): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  try {
    await Promise.race([once(input, "drain", { signal }), once(input, "close", { signal })]);
  } finally {
    over.abort();
  }
}

async function countBytes(output: Readable): Promise<Unpacked> {
  const parts: Buffer[] = [];
  let kept = 0;
  let bytes = 0;
  for await (const chunk of output as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (kept >= HEAD_BYTES) continue;
    parts.push(chunk);
    kept += chunk.length;
  }
  return { head: Buffer.concat(parts), bytes };
}
