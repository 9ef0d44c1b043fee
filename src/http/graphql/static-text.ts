/**
 * Serves long texts that never change (the GraphiQL page has 9 MB, the schema 100 KB). A text is made on its first
 * request, compressed once per encoding, and not sent again to a client that has it cached.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { acceptedEncoding, compress } from "./content-encoding.ts";

export interface StaticText {
  /** Answers a GET or HEAD request with the text in the best accepted encoding, or with 304. */
  serve(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

const ENCODINGS = ["br", "gzip"] as const;
type StaticEncoding = (typeof ENCODINGS)[number] | "identity";

/** Brotli compresses 9 MB in 0.2 s. Its highest level, 11, needs 20 s for 10 % less. */
const LEVELS = { br: 5, gzip: 6 } as const;

interface Made {
  readonly text: Buffer;
  readonly tag: string;
}

/** `type`: content type with charset. */
export function createStaticText(type: string, makeText: () => string | Promise<string>): StaticText {
  let made: Promise<Made> | null = null;
  const bodies = new Map<StaticEncoding, Promise<Buffer>>();

  async function make(): Promise<Made> {
    const text = Buffer.from(await makeText());
    return { text, tag: createHash("sha256").update(text).digest("base64url") };
  }

  function bodyOf(text: Buffer, encoding: StaticEncoding): Promise<Buffer> {
    const known =
      bodies.get(encoding) ??
      (encoding === "identity" ? Promise.resolve(text) : compress(text, encoding, LEVELS[encoding]));
    bodies.set(encoding, known);
    return known;
  }

  return {
    async serve(request, response) {
      const encoding = acceptedEncoding(request.headers["accept-encoding"], ENCODINGS) ?? "identity";
      // A failure to make the text is not kept.
      made ??= make().catch((error: unknown) => {
        made = null;
        throw error;
      });
      const { text, tag } = await made;
      const body = await bodyOf(text, encoding);
      // Clients revalidate on each use, because another version of the service has another text. A browser drops the
      // page from its cache when it posts to the same URL, and gets it again.
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

function isKnown(tags: string | undefined, tag: string): boolean {
  return (
    tags !== undefined &&
    (tags.trim() === "*" || tags.split(",").some((one) => one.trim().replace(/^W\//, "") === `"${tag}"`))
  );
}
