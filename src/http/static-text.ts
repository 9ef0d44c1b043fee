/**
 * Texts that are the same for everybody and long (the page of GraphiQL has 9 MB, the schema 100 KB): made when they are
 * first asked for, compressed once for each encoding, and not sent to whoever has them already.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

export interface Prepared {
  /** Answers a GET or HEAD with the text, in the best encoding that the client takes, or with 304. */
  serve(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

const ENCODINGS = ["br", "gzip", "identity"] as const;
type Encoding = (typeof ENCODINGS)[number];

/** Of brotli's 11 levels: 9 MB take it 0.2 s, once. The best would take 20 s for a tenth less. */
const BROTLI_QUALITY = 5;

/** `type`: with its charset. */
export function createPrepared(type: string, makeText: () => string): Prepared {
  let text: Buffer | null = null;
  let tag = "";
  const bodies = new Map<Encoding, Promise<Buffer>>();

  function bodyOf(encoding: Encoding): Promise<Buffer> {
    text ??= Buffer.from(makeText());
    tag ||= createHash("sha256").update(text).digest("base64url");
    const known = bodies.get(encoding) ?? encode(text, encoding);
    bodies.set(encoding, known);
    return known;
  }

  return {
    async serve(request, response) {
      const encoding = encodingFor(request.headers["accept-encoding"]);
      const body = await bodyOf(encoding);
      // Asked again each time, because another version of the service has another text. A browser forgets the page when it
      // posts to the same address, and is sent it again.
      response.setHeader("cache-control", "no-cache");
      response.setHeader("etag", `W/"${tag}"`);
      response.appendHeader("vary", "accept, accept-encoding");
      if (isKnown(request.headers["if-none-match"], tag)) return void response.writeHead(304).end();
      response.writeHead(200, {
        "content-type": type,
        "content-length": body.length,
        ...(encoding !== "identity" && { "content-encoding": encoding }),
      });
      response.end(request.method === "HEAD" ? undefined : body);
    },
  };
}

function encode(text: Buffer, encoding: Encoding): Promise<Buffer> {
  switch (encoding) {
    case "br":
      return promisify(brotliCompress)(text, {
        params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY, [constants.BROTLI_PARAM_SIZE_HINT]: text.length },
      });
    case "gzip":
      return promisify(gzip)(text);
    case "identity":
      return Promise.resolve(text);
  }
}

/** The first of ours that the client takes; as it is, where it says nothing. */
function encodingFor(accepted: string | undefined): Encoding {
  const weights = new Map(
    (accepted ?? "").split(",").map((part): [string, number] => {
      const [name = "", weight] = part
        .trim()
        .toLowerCase()
        .split(/\s*;\s*q=/);
      return [name, weight === undefined ? 1 : Number(weight)];
    }),
  );
  return ENCODINGS.find((encoding) => (weights.get(encoding) ?? weights.get("*") ?? 0) > 0) ?? "identity";
}

function isKnown(tags: string | undefined, tag: string): boolean {
  return (
    tags !== undefined &&
    (tags.trim() === "*" || tags.split(",").some((one) => one.trim().replace(/^W\//, "") === `"${tag}"`))
  );
}
