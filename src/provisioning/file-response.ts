/**
 * Sends a file or a range of it, with bytes replaced on the way. Reads only as fast as the client takes. One file
 * descriptor serves a whole response, so replacing the file meanwhile is harmless.
 */
import { constants, open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";

/** Bytes read at a time: other requests of the process wait for the sending of one such chunk for each download. */
const CHUNK_BYTES = 128 * 1024;

/** Progress that counts: a client that reads a few bytes now and then does not keep its place. */
const PROGRESS_BYTES = 2 * CHUNK_BYTES;

/** Bytes that replace those of the file. */
export interface Patch {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

export interface ServedFile {
  readonly path: string;
  /** The size that the file must have. */
  readonly sizeBytes: number;
  readonly type: string;
  /** Names the content, the patches included; without quotes. */
  readonly tag: string;
  readonly patches?: readonly Patch[];
  /** Whether the file may not be a symbolic link. */
  readonly isPlain?: true;
}

/**
 * `SENT`: completely; `CUT`: the client disconnected or was too slow; `MISSING`: there is no such file, or it has
 * another size, and no response was sent.
 */
type FileOutcome = "SENT" | "CUT" | "MISSING";

export interface Sent {
  readonly outcome: FileOutcome;
  /** The bytes that were to be sent; `end` is exclusive. Both 0 for HEAD and refused ranges. */
  readonly start: number;
  readonly end: number;
}

const NOTHING = { start: 0, end: 0 };

interface Sending {
  /** Time for the client to take `PROGRESS_BYTES`, in milliseconds; a slower one is cut. */
  readonly stallMs: number;
  /** Called with the size of each part that was handed to the kernel. */
  onBytes(bytes: number): void;
}

export async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  file: ServedFile,
  sending: Sending,
): Promise<Sent> {
  const handle = await openFile(file);
  if (handle === null) return { outcome: "MISSING", ...NOTHING };
  try {
    const etag = `"${file.tag}"`;
    const range = rangeOf(request, etag, file.sizeBytes);
    response.setHeader("accept-ranges", "bytes");
    response.setHeader("etag", etag);
    response.setHeader("cache-control", "no-store");
    if (range === "UNSATISFIABLE") {
      response.writeHead(416, { "content-range": `bytes */${file.sizeBytes}`, "content-length": "0" }).end();
      return { outcome: "SENT", ...NOTHING };
    }
    const { start, end } = range ?? { start: 0, end: file.sizeBytes };
    response.setHeader("content-type", file.type);
    response.setHeader("content-length", String(end - start));
    if (range) response.setHeader("content-range", `bytes ${start}-${end - 1}/${file.sizeBytes}`);
    response.writeHead(range ? 206 : 200);
    if (request.method === "HEAD") {
      response.end();
      return { outcome: "SENT", ...NOTHING };
    }
    const part = { start, end, patches: file.patches ?? [] };
    return { outcome: await sendBytes(response, handle, part, sending), start, end };
  } finally {
    await handle.close();
  }
}

async function openFile({ path, sizeBytes, isPlain }: ServedFile): Promise<FileHandle | null> {
  let handle: FileHandle;
  try {
    handle = await open(path, isPlain ? constants.O_RDONLY | constants.O_NOFOLLOW : constants.O_RDONLY);
  } catch {
    return null;
  }
  const found = await handle.stat();
  if (found.isFile() && found.size === sizeBytes) return handle;
  await handle.close();
  return null;
}

interface Part {
  readonly start: number;
  readonly end: number;
  readonly patches: readonly Patch[];
}

async function sendBytes(
  response: ServerResponse,
  handle: FileHandle,
  part: Part,
  { stallMs, onBytes }: Sending,
): Promise<FileOutcome> {
  if (part.start === part.end) {
    response.end();
    return "SENT";
  }
  const tooSlow = setTimeout(() => response.destroy(), stallMs);
  let bytes = 0;
  try {
    for await (const chunk of chunksOf(handle, part)) {
      if (!(await isWritten(response, chunk))) {
        response.destroy();
        return "CUT";
      }
      onBytes(chunk.length);
      bytes += chunk.length;
      if (bytes < PROGRESS_BYTES) continue;
      bytes = 0;
      tooSlow.refresh();
    }
    response.end();
    return "SENT";
  } finally {
    clearTimeout(tooSlow);
  }
}

/** Resolves when the chunk was handed to the kernel: true; or when the connection has ended: false. */
function isWritten(response: ServerResponse, chunk: Buffer): Promise<boolean> {
  if (response.destroyed) return Promise.resolve(false);
  return new Promise((done) => {
    const cut = () => done(false);
    response.once("close", cut);
    response.write(chunk, (error) => {
      response.off("close", cut);
      done(!error);
    });
  });
}

async function* chunksOf(handle: FileHandle, { start, end, patches }: Part): AsyncGenerator<Buffer> {
  // One buffer for all chunks: the next one is read when the last one was handed to the kernel.
  const space = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, end - start));
  for (let at = start; at < end;) {
    const { bytesRead } = await handle.read(space, 0, Math.min(space.length, end - at), at);
    if (bytesRead === 0) throw new Error("A file became shorter while it was sent.");
    const chunk = space.subarray(0, bytesRead);
    for (const patch of patches) overlay(chunk, at, patch);
    yield chunk;
    at += bytesRead;
  }
}

/** Writes the part of a patch that lies in a chunk; `at`: place of the chunk in the file. */
function overlay(chunk: Buffer, at: number, { offset, bytes }: Patch): void {
  const from = Math.max(offset, at);
  const to = Math.min(offset + bytes.length, at + chunk.length);
  if (from < to) chunk.set(bytes.subarray(from - offset, to - offset), from - at);
}

interface Range {
  readonly start: number;
  readonly end: number;
}

/**
 * The range that a request asks for; null: the whole file. Lists of ranges and other units are ignored, as RFC 9110
 * allows, and so is a range of other content (If-Range).
 */
function rangeOf({ headers }: IncomingMessage, etag: string, size: number): Range | "UNSATISFIABLE" | null {
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(headers.range ?? "") ?? [];
  if (first === "" && last === "") return null;
  const condition = headers["if-range"];
  if (condition !== undefined && condition !== etag) return null;
  if (first === "") {
    const start = Math.max(0, size - Number(last));
    return start < size ? { start, end: size } : "UNSATISFIABLE";
  }
  const [start, end] = [Number(first), last === "" ? size : Math.min(size, Number(last) + 1)];
  if (last !== "" && Number(last) < start) return null;
  return start < size ? { start, end } : "UNSATISFIABLE";
}
