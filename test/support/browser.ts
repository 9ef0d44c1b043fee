/** A browser without a screen: it keeps cookies by host and port, and follows redirects as a navigation does. */
import { request as httpRequest } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import { parseSetCookie } from "cookie";

export interface Seen {
  readonly url: string;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Sent {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string;
}

const REDIRECTS_MAX = 10;

export class Browser {
  readonly #jars = new Map<string, Map<string, string>>();

  /** One request, with the cookies of its host. */
  async send(url: string, { method = "GET", headers = {}, body }: Sent = {}): Promise<Seen> {
    const cookie = this.cookiesOf(url);
    const response = await new Promise<IncomingMessage>((done, failed) => {
      const sent = httpRequest(url, { method, headers: { ...(cookie !== "" && { cookie }), ...headers } }, done);
      sent.on("error", failed);
      sent.end(body);
    });
    for (const line of response.headers["set-cookie"] ?? []) {
      const { name, value = "", maxAge } = parseSetCookie(line);
      const jar = this.#jars.get(new URL(url).host) ?? new Map<string, string>();
      this.#jars.set(new URL(url).host, jar);
      if (maxAge === 0 || value === "") jar.delete(name);
      else jar.set(name, value);
    }
    return { url, status: response.statusCode ?? 0, headers: response.headers, body: await text(response) };
  }

  /** Opens a page, over all redirects. */
  async open(url: string, sent: Sent = {}): Promise<Seen> {
    let seen = await this.send(url, { ...sent, headers: { accept: "text/html", ...sent.headers } });
    for (let count = 0; count < REDIRECTS_MAX && seen.headers.location !== undefined; count += 1)
      seen = await this.send(new URL(seen.headers.location, seen.url).href, { headers: { accept: "text/html" } });
    return seen;
  }

  /** The header with the cookies of a host. */
  cookiesOf(url: string): string {
    const jar = this.#jars.get(new URL(url).host) ?? new Map<string, string>();
    return [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
  }

  setCookies(url: string, cookies: string): void {
    const pairs = cookies.split("; ").map((pair) => pair.split(/=(.*)/s).slice(0, 2) as [string, string]);
    this.#jars.set(new URL(url).host, new Map(pairs));
  }
}
