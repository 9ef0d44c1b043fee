/**
 * Plays the service for one agent: polls are answered with the order that the check has set, images are served with the
 * faults that the check asks for.
 */
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export const SESSION = "4f2c";
export const SECRET = "not-for-the-console";

export interface AgentResult {
  readonly task: string;
  readonly ok: boolean;
  readonly output?: Record<string, unknown>;
  readonly error?: { readonly code: string; readonly message: string };
}

export type Fault = "CUT" | "STALL" | "SLOW";

interface ServedImage {
  readonly content: Buffer;
  readonly fault?: Fault;
}

interface Assignment {
  readonly task: { readonly id: string; readonly kind: string; readonly args: unknown };
  readonly take: (result: AgentResult) => void;
  cancelled: boolean;
}

const CUT_BYTES = 5 * 2 ** 20;
const STALL_BYTES = 2 ** 20;
const SLOW_BYTES = 2 ** 19;
const SLOW_MS = 100;

export class PlayedListener {
  readonly #server: Server;
  readonly #images = new Map<string, ServedImage>();
  #assignment: Assignment | null = null;
  #count = 0;
  #off = false;
  #contact: (report: Record<string, unknown>) => void = () => undefined;
  readonly firstContact: Promise<Record<string, unknown>>;
  readonly percents: number[] = [];

  constructor() {
    this.firstContact = new Promise((resolve) => {
      this.#contact = resolve;
    });
    this.#server = createServer((request, response) => {
      void this.#answer(request, response);
    });
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, "127.0.0.1", resolve);
    });
  }

  /** The address as a machine with QEMU's user network sees it. */
  get url(): string {
    return `http://10.0.2.2:${(this.#server.address() as AddressInfo).port}`;
  }

  serve(name: string, content: Buffer, fault?: Fault): string {
    this.#images.set(`/images/${name}`, fault === undefined ? { content } : { content, fault });
    return `/images/${name}`;
  }

  perform(kind: string, args: unknown): Promise<AgentResult> {
    this.#count += 1;
    const task = { id: `task-${this.#count}`, kind, args };
    return new Promise((take) => {
      this.#assignment = { task, take, cancelled: false };
    });
  }

  cancel(): void {
    if (this.#assignment) this.#assignment.cancelled = true;
  }

  powerOff(): void {
    this.#off = true;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (request.headers.authorization !== `Bearer ${SESSION}.${SECRET}`) return reply(response, 401, {});
    const path = request.url ?? "";
    const image = this.#images.get(path);
    if (image) return this.#serveImage(image, request, response);
    if (request.method !== "POST") return reply(response, 404, {});
    const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>;
    if (path === "/agent/v1/poll") return reply(response, 200, this.#order(body));
    if (path !== "/agent/v1/result") return reply(response, 404, {});
    const result = body as unknown as AgentResult;
    if (this.#assignment?.task.id !== result.task) return reply(response, 409, {});
    const { take } = this.#assignment;
    this.#assignment = null;
    reply(response, 202, {});
    take(result);
  }

  #order(report: Record<string, unknown>): unknown {
    this.#contact(report);
    const running = report["task"] as { id: string; percent: number } | undefined;
    if (running) this.percents.push(running.percent);
    if (this.#off) return { do: "power_off" };
    if (!this.#assignment) return running ? { do: "cancel" } : { do: "wait", seconds: 1 };
    if (running?.id !== this.#assignment.task.id) return { do: "task", task: this.#assignment.task };
    return { do: this.#assignment.cancelled ? "cancel" : "continue" };
  }

  #serveImage(image: ServedImage, request: IncomingMessage, response: ServerResponse): void {
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const rest = image.content.subarray(from);
    const end = image.content.length - 1;
    response.writeHead(from > 0 ? 206 : 200, {
      "Content-Length": rest.length,
      ETag: '"1"',
      ...(from > 0 ? { "Content-Range": `bytes ${from}-${end}/${image.content.length}` } : {}),
    });
    if (image.fault === undefined) return void response.end(rest);
    if (image.fault === "STALL") return void response.write(rest.subarray(0, STALL_BYTES));
    if (image.fault === "SLOW") return slowly(rest, response);
    // The connection ends in the middle of the body, unless this is its last part.
    response.write(rest.subarray(0, CUT_BYTES), () => {
      if (rest.length <= CUT_BYTES) response.end();
      else setTimeout(() => response.destroy(), 200);
    });
  }
}

function slowly(rest: Buffer, response: ServerResponse): void {
  let sent = 0;
  const timer = setInterval(() => {
    response.write(rest.subarray(sent, sent + SLOW_BYTES));
    sent += SLOW_BYTES;
    if (sent >= rest.length) response.end();
  }, SLOW_MS);
  response.on("close", () => clearInterval(timer));
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
}
