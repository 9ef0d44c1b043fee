/** Encodings of response bodies, and which one a client accepts. */
import { promisify } from "node:util";
import { brotliCompress, constants, gzip, zstdCompress } from "node:zlib";

export type Encoding = "zstd" | "br" | "gzip";

/** The first of the encodings that the client accepts; null for none, and without a header. */
export function acceptedEncoding<Known extends Encoding>(
  header: string | undefined,
  encodings: readonly Known[],
): Known | null {
  const weights = new Map(
    (header ?? "").split(",").map((part): [string, number] => {
      const [name = "", weight] = part
        .trim()
        .toLowerCase()
        .split(/\s*;\s*q=/);
      return [name, weight === undefined ? 1 : Number(weight)];
    }),
  );
  return encodings.find((encoding) => (weights.get(encoding) ?? weights.get("*") ?? 0) > 0) ?? null;
}

/** Compresses in the thread pool; the event loop goes on. */
export function compress(bytes: Buffer, encoding: Encoding, level: number): Promise<Buffer<ArrayBuffer>> {
  switch (encoding) {
    case "zstd":
      return promisify(zstdCompress)(bytes, { params: { [constants.ZSTD_c_compressionLevel]: level } });
    case "br":
      return promisify(brotliCompress)(bytes, {
        params: { [constants.BROTLI_PARAM_QUALITY]: level, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
      });
    case "gzip":
      return promisify(gzip)(bytes, { level });
  }
}
