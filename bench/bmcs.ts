/**
 * Subject `bmcs`: simulated Redfish BMCs in a few processes, and a service in a process of its own that commissions
 * them in groups and then reads their power once a minute. Measures CPU per request to a BMC against a bare `fetch`,
 * sessions of each BMC, and memory. Deployment and cleaning are simulated, inspection and power are Redfish.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { mapConcurrently } from "../src/runtime/concurrency.ts";
import { printTable, shown } from "./figures.ts";
import { mutate, request } from "./request.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { cpuMs, cpuMsOfChildren, end, memoryMbOfTree } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

const SIMULATOR = fileURLToPath(new URL("../packages/bmc-simulator/src/main.ts", import.meta.url));
const PROCESSES = 2;
const POWER_SECONDS = 60;
const PERIODS = 2;
const POLL_MS = 500;
const FETCHES = 5_000;
const FETCHES_AT_ONCE = 12;
const REGISTER_AT_ONCE = 500;

interface Bmc {
  readonly url: string;
  readonly system: string;
}

/** The output of a simulator with `--json`. */
interface Simulator {
  readonly userName: string;
  readonly password: string;
  readonly control: string;
  readonly bmcs: readonly Bmc[];
}

export interface BmcsOptions {
  readonly bmcs: number;
  /** Nodes in one operation. */
  readonly group: number;
}

export async function measureBmcs(testbed: Testbed, { bmcs, group }: BmcsOptions): Promise<void> {
  const simulators = await Promise.all(
    Array.from({ length: PROCESSES }, () => startSimulator(testbed, Math.ceil(bmcs / PROCESSES))),
  );
  const all = simulators.flatMap((simulator) => simulator.bmcs.map((bmc) => ({ ...bmc, login: simulator })));
  const nodes = all
    .slice(0, bmcs)
    .map(({ url, login }, index) => ({ name: `bmc-${index + 1}`, url: new URL(url), login }));
  const fetchMs = await bareFetch(all);
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  await using service = await startServed(testbed, {
    environment: {
      DATABASE_URL: made.connection.url,
      OSTLER_PLUGINS: "fake,redfish",
      OSTLER_BMC_NETWORKS: "127.0.0.0/8",
      OSTLER_POWER_SECONDS: String(POWER_SECONDS),
    },
  });
  for (let from = 0; from < nodes.length; from += REGISTER_AT_ONCE)
    await register(service, nodes.slice(from, from + REGISTER_AT_ONCE));
  const commission = await measured(service, async () => {
    for (let from = 0; from < nodes.length; from += group)
      await commissioned(
        service,
        nodes.slice(from, from + group).map(({ name }) => name),
      );
  });
  const reading = await measured(service, () => delay(PERIODS * POWER_SECONDS * 1_000));
  const sessions = (await Promise.all(simulators.map(sessionsOf))).flat();
  console.log(
    `  ${bmcs} BMCs in ${PROCESSES} processes, ${group} nodes in an operation; CPU and memory of the service with its drivers' processes`,
  );
  printTable(
    ["", "seconds", "requests", "CPU s", "CPU ms/request", "of a bare fetch", "peak memory MB"],
    [
      ["commissionNodes", ...cells(commission, fetchMs)],
      [`${PERIODS} readings of the power`, ...cells(reading, fetchMs)],
      ["bare fetch", "", String(FETCHES), "", shown(fetchMs, 2), "1.0", ""],
    ],
  );
  console.log(
    `  sessions of a BMC: ${shown(sessions.reduce((sum, count) => sum + count, 0) / sessions.length, 2)} on average, at most ${Math.max(...sessions)}`,
  );
  await Promise.all(simulators.map(({ child }) => end(child)));
}

// ---- BMCs

async function startSimulator(testbed: Testbed, count: number): Promise<Simulator & { readonly child: ChildProcess }> {
  const words = ["--count", String(count), "--port", "0", "--control", "0", "--latency", "none", "--json"];
  const child = spawn(process.execPath, [SIMULATOR, ...words], { stdio: ["ignore", "pipe", "inherit"] });
  testbed.watch(child);
  let text = "";
  const printed = await new Promise<Simulator>((resolve, reject) => {
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.endsWith("}\n")) resolve(JSON.parse(text) as Simulator);
    });
    child.once("exit", (code) => reject(new Error(`The simulator ended with ${code}.`)));
  });
  return { ...printed, child };
}

async function sessionsOf({ control }: Simulator): Promise<number[]> {
  const bmcs = (await (await fetch(`${control}/bmcs`)).json()) as readonly { readonly sessions: number }[];
  return bmcs.map(({ sessions }) => sessions);
}

/** CPU time of this process for one authenticated GET, in ms. */
async function bareFetch(bmcs: readonly { readonly url: string; readonly login: Simulator }[]): Promise<number> {
  const one = async (index: number) => {
    const bmc = bmcs[index % bmcs.length];
    if (!bmc) return;
    const { userName, password } = bmc.login;
    const authorization = `Basic ${Buffer.from(`${userName}:${password}`).toString("base64")}`;
    const answer = await fetch(`${bmc.url}/redfish/v1/Systems`, { headers: { authorization } });
    await answer.text();
  };
  const before = process.cpuUsage();
  await mapConcurrently(
    FETCHES_AT_ONCE,
    Array.from({ length: FETCHES }, (_, index) => index),
    one,
  );
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / FETCHES;
}

// ---- the service

interface BmcNode {
  readonly name: string;
  readonly url: URL;
  readonly login: Simulator;
}

async function register(service: Served, nodes: readonly BmcNode[]): Promise<void> {
  const input = {
    nodes: nodes.map(({ name, url, login }) => ({
      name,
      driver: {
        redfish: {
          address: url.hostname,
          port: Number(url.port),
          scheme: "HTTP",
          username: login.userName,
          password: login.password,
        },
      },
      interfaces: [{ kinds: ["DEPLOY", "CLEAN"], driver: { fake: { delayMs: 0 } } }],
    })),
  };
  await mutate(
    service,
    "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { code message } } }",
    { input },
  );
}

/** Commissions nodes and waits for the end of the operation. */
async function commissioned(service: Served, names: readonly string[]): Promise<void> {
  const { commissionNodes } = await mutate<{ commissionNodes: { operation: { id: string } } }>(
    service,
    "mutation Commission($input: CommissionNodesInput!) { commissionNodes(input: $input) { operation { id } errors { code message } } }",
    { input: { nodes: { names } } },
  );
  const { id } = commissionNodes.operation;
  for (;;) {
    const { operation } = await request<{
      operation: { finishedAt: string | null; state: string; firstFailure: object | null };
    }>(service, "query Ended($id: ID!) { operation(id: $id) { finishedAt state firstFailure { message } } }", { id });
    if (operation.finishedAt !== null) {
      if (operation.state !== "SUCCEEDED") throw new Error(JSON.stringify(operation));
      return;
    }
    await delay(POLL_MS);
  }
}

interface Cost {
  readonly seconds: number;
  readonly requests: number;
  readonly cpuMs: number | null;
  readonly memoryMb: number | null;
}

async function measured(service: Served, work: () => Promise<void>): Promise<Cost> {
  const [cpu, requests, start] = [allCpuMs(service.pid), await requestsOf(service), performance.now()];
  let memoryMb = memoryMbOfTree(service.pid);
  const timer = setInterval(() => {
    memoryMb = Math.max(memoryMb ?? 0, memoryMbOfTree(service.pid) ?? 0);
  }, POLL_MS);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  const cpuNow = allCpuMs(service.pid);
  return {
    seconds: (performance.now() - start) / 1_000,
    requests: (await requestsOf(service)) - requests,
    cpuMs: cpu === null || cpuNow === null ? null : cpuNow - cpu,
    memoryMb,
  };
}

/** CPU time of the service and its drivers' processes. */
function allCpuMs(pid: number): number | null {
  const [own, others] = [cpuMs(pid), cpuMsOfChildren(pid)];
  return own === null || others === null ? null : own + others;
}

/** Requests of the driver to BMCs so far, by the service's metrics. */
async function requestsOf({ url }: Served): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return text
    .split("\n")
    .filter((line) => line.startsWith("ostler_driver_call_duration_seconds_count") && line.includes('call="redfish '))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

function cells({ seconds, requests, cpuMs: used, memoryMb }: Cost, fetchMs: number): string[] {
  const each = used === null ? null : used / requests;
  return [
    shown(seconds, 0),
    String(requests),
    shown(used === null ? null : used / 1_000, 1),
    shown(each, 2),
    shown(each === null ? null : each / fetchMs),
    shown(memoryMb, 0),
  ];
}
