/**
 * The control address of a fleet: lists its BMCs and switches their faults while it runs.
 *
 * `GET /simulator/bmcs`, `GET /simulator/bmcs/bmc1`, and `PATCH /simulator/faults` for all BMCs or
 * `PATCH /simulator/bmcs/bmc1/faults` for one, with the body `{"faults": [{"kind": "slow", "ms": 2000}]}`, which
 * replaces the faults.
 */
import { createServer } from "node:http";
import type { IncomingMessage } from "node:http";
import type { Fault } from "./faults.ts";
import type { SimulatedBmc } from "./start.ts";

export interface Control {
  readonly url: string;
  close(): Promise<void>;
}

const BODY_BYTES_MAX = 2 ** 20;

export async function startControl(bmcs: readonly SimulatedBmc[], host: string, port: number): Promise<Control> {
  const server = createServer((request, response) => {
    void answerOf(bmcs, request).then(({ status, body }) => {
      response.writeHead(status, { "Content-Type": "application/json" }).end(`${JSON.stringify(body, hidden, 2)}\n`);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  return {
    url: `http://${host}:${typeof address === "object" && address !== null ? address.port : port}/simulator`,
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

const hidden = (name: string, value: unknown) => (/password/i.test(name) ? undefined : value);

interface ControlAnswer {
  readonly status: number;
  readonly body: unknown;
}

async function answerOf(bmcs: readonly SimulatedBmc[], request: IncomingMessage): Promise<ControlAnswer> {
  const path = (request.url ?? "").replace(/^\/simulator/, "");
  const [, place, name, last] = path.split("/");
  if (request.method === "GET" && path === "/bmcs") return { status: 200, body: bmcs.map(rowOf) };
  const chosen = path === "/faults" ? bmcs : bmcs.filter((bmc) => place === "bmcs" && bmc.name === name);
  if (chosen.length === 0) return { status: 404, body: { error: `There is no ${path} here.` } };
  const [first] = chosen;
  if (request.method === "GET" && path !== "/faults" && first && last === undefined)
    return { status: 200, body: { ...rowOf(first), state: { ...first.state, account: undefined } } };
  if (request.method !== "PATCH" || (path !== "/faults" && last !== "faults"))
    return { status: 405, body: { error: `${request.method} is not allowed for ${path}.` } };
  try {
    const faults = faultsOf(await textOf(request));
    for (const bmc of chosen) bmc.faults.set(faults);
    return { status: 200, body: { bmcs: chosen.length, faults } };
  } catch (error) {
    return { status: 400, body: { error: error instanceof Error ? error.message : String(error) } };
  }
}

function rowOf({ name, url, traits, system, state, faults, sessions }: SimulatedBmc) {
  const { serialNumber, macs } = system;
  const power = state.power;
  return { name, url, model: traits.model, serialNumber, macs, power, sessions: sessions(), faults: faults.list() };
}

/** Each fault is checked where it is set. */
function faultsOf(text: string): readonly Fault[] {
  const body: unknown = JSON.parse(text);
  const faults: unknown = typeof body === "object" && body !== null && "faults" in body ? body.faults : undefined;
  if (!Array.isArray(faults)) throw new Error('The body is {"faults": [...]}, with an empty list for none.');
  return faults;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += String(chunk);
    if (text.length > BODY_BYTES_MAX) throw new Error("The body is too large.");
  }
  return text;
}
