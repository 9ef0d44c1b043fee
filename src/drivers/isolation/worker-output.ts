/** Logs what a worker process prints, line by line, at a bounded rate. */
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { createTokenBucket } from "../../runtime/token-bucket.ts";

/** A burst of lines, then a rate. Lines above it are dropped, and the stream is paused, which slows the writer down. */
const BURST = 500;
const LINES_PER_SECOND = 100;
const PAUSE_MS = 1_000;
/** Characters kept of a line without an end; the rest of it is dropped. */
const LINE_KEPT_MAX = 64 * 1024;

export function readLines(
  stream: Readable | null,
  onLine: (line: string) => void,
  onText: (text: string) => void,
): void {
  if (!stream) return;
  const bucket = createTokenBucket(BURST, LINES_PER_SECOND);
  let rest = "";
  const emit = (line: string) => {
    if (line.trim() === "") return;
    if (bucket.take()) onLine(line);
    else if (!stream.isPaused()) {
      stream.pause();
      setTimeout(() => stream.resume(), PAUSE_MS).unref();
    }
  };
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    onText(chunk);
    const lines = (rest + chunk).split("\n");
    rest = (lines.pop() ?? "").slice(0, LINE_KEPT_MAX);
    for (const line of lines) emit(line);
  });
  stream.on("end", () => emit(rest));
  stream.on("error", () => {});
  (stream as Socket).unref();
}
