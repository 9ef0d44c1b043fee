/**
 * The fan-out of one transition to many subscribers: from the acknowledgement of a commit until a subscriber receives
 * it, socket included, and the CPU of the service and of PostgreSQL. The writer, the service and the subscribers are
 * three processes; PostgreSQL notifies the service of commits.
 */
import { fork } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createTransact } from "../src/engine/transaction.ts";
import { move } from "../test/support/moves.ts";
import { createNotifier } from "../src/store/postgres/notifier.ts";
import { openDatabase } from "../src/store/postgres/database.ts";
import type { Connection } from "../src/store/postgres/database.ts";
import { nodeKeys } from "../src/store/nodes/nodes.ts";
import { printTable, shown } from "./figures.ts";
import { openFleet, registerFleet } from "./fleet.ts";
import { mutate } from "./request.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import type { Latencies, Subscription, ToClients } from "./stream-clients.ts";
import { cpuMs, end, rssMb } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

export interface FanOut {
  /** Program with the streams, relative to this folder; absent: the service. */
  readonly broadcast?: string;
  /** Requests of the subscribers, in turns. */
  readonly subscriptions: readonly Subscription[];
  readonly subscribers: number;
  /** Number of accounts of the subscribers, with the four built-in roles in turns. Absent: callers without a token. */
  readonly callers?: number;
  /** Transitions that are written. */
  readonly events: number;
}

export interface FanOutFigures extends Latencies {
  /** CPU time for one transition, in ms; null if the system does not report it. */
  readonly cpu: number | null;
  readonly postgresCpu: number | null;
  /** Memory of the service in MB, and how much of it is of a subscriber, in kB. */
  readonly rss: number | null;
  readonly subscriberKb: number | null;
}

export interface FanOutRow {
  readonly name: string;
  readonly subscribers: number;
  readonly figures: FanOutFigures;
}

type Figure = (figures: FanOutFigures, subscribers: number) => number | null;

const COLUMNS: readonly (readonly [head: string, digits: number, of: Figure])[] = [
  ["p50 ms", 1, ({ p50 }) => p50],
  ["p99 ms", 1, ({ p99 }) => p99],
  ["worst ms", 1, ({ worst }) => worst],
  ["CPU ms per event", 1, ({ cpu }) => cpu],
  ["CPU µs per delivery", 1, ({ cpu }, subscribers) => (cpu === null ? null : (cpu * 1_000) / subscribers)],
  ["PostgreSQL ms per event", 2, ({ postgresCpu }) => postgresCpu],
  ["RSS MB", 0, ({ rss }) => rss],
  ["kB per subscriber", 0, ({ subscriberKb }) => subscriberKb],
  ["missing", 0, ({ missing }) => missing],
];

/** Prints the figures, and those of each row as a ratio of those of the last, which is what is compared with. */
export function printFanOuts(rows: readonly FanOutRow[]): void {
  const base = rows.at(-1);
  const cells = ({ name, figures, subscribers }: FanOutRow) => [
    `${subscribers}, ${name}`,
    ...COLUMNS.map(([, digits, of]) => shown(of(figures, subscribers), digits)),
  ];
  const ratios = ({ name, figures, subscribers }: FanOutRow) => [
    `${subscribers}, ${name} / ${base?.name}`,
    ...COLUMNS.map(([, , of]) => {
      const [own, others] = [of(figures, subscribers), base ? of(base.figures, base.subscribers) : null];
      return shown(own === null || others === null || others === 0 ? null : own / others, 2);
    }),
  ];
  printTable(["subscribers", ...COLUMNS.map(([head]) => head)], [...rows.map(cells), ...rows.slice(0, -1).map(ratios)]);
}

/** Written to in turns: several changes of one node could be one item of a stream of changes. */
const NODES = 100;
/** Time between two transitions: one reaches all subscribers before the next is written. */
const spacingMs = (subscribers: number) => Math.max(50, subscribers * 0.2);
/** Number of first transitions that are not counted. */
const WARM_UP = 5;
const SETTLE_MS = 1_000;

export async function measureFanOut(testbed: Testbed, fanOut: FanOut): Promise<FanOutFigures> {
  const { broadcast, subscriptions, subscribers, callers = 0, events } = fanOut;
  await using made = await testbed.database("served");
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database is reached by a URL.");
  {
    await using fleet = await openFleet({ connection, concurrency: 1 });
    await registerFleet(fleet.engine, NODES);
  }
  await using service = await startServed(testbed, {
    ...(broadcast && { program: broadcast, args: [connection.url] }),
    environment: { DATABASE_URL: connection.url, OSTLER_POWER_SECONDS: "0" },
  });
  const tokens = await makeCallers(service, callers);
  const idle = rssMb(service.pid);
  await using clients = startClients(testbed);
  await clients.ask({
    start: { url: `${service.url.replace("http", "ws")}/graphql`, count: subscribers, subscriptions, tokens },
  });
  await using writer = await openWriter(connection);
  const write = async (count: number) => {
    const commits: (readonly [string, number])[] = [];
    for (let written = 0; written < count; written += 1) {
      commits.push(await writer.write());
      await delay(spacingMs(subscribers));
    }
    return commits;
  };
  await clients.ask({ commits: await write(WARM_UP) });
  await delay(SETTLE_MS);
  const readCpu = () => ({ service: cpuMs(service.pid), postgres: testbed.postgresCpuMs() });
  const before = readCpu();
  const latencies = await clients.ask({ commits: await write(events) });
  const after = readCpu();
  const each = (of: keyof typeof before) => difference(after[of], before[of], events);
  const rss = rssMb(service.pid);
  return {
    ...latencies,
    cpu: each("service"),
    postgresCpu: each("postgres"),
    rss,
    subscriberKb: difference(rss, idle, subscribers / 1_024),
  };
}

const ROLES = ["viewer", "operator", "manager", "admin"];
/** Accounts that are made by one request. */
const TOGETHER = 10;

/** Makes accounts; returns a token of each. */
async function makeCallers(service: Served, count: number): Promise<readonly string[]> {
  const tokens: string[] = [];
  while (tokens.length < count) {
    const fields = Array.from({ length: Math.min(TOGETHER, count - tokens.length) }, (_, index) => {
      const number = tokens.length + index;
      const role = ROLES[number % ROLES.length];
      return `
        a${index}: createAccount(input: { name: "caller-${number}" }) { errors { message } }
        r${index}: setRoles(input: { principal: "account:caller-${number}", roles: [{ role: "${role}" }] }) { errors { message } }
        t${index}: createToken(input: { account: "caller-${number}" }) { secret errors { message } }`;
    });
    const data = await mutate<Record<string, { readonly secret?: string }>>(service, `mutation { ${fields.join("")} }`);
    tokens.push(...Object.values(data).flatMap(({ secret }) => secret ?? []));
  }
  return tokens;
}

function difference(after: number | null, before: number | null, divisor: number): number | null {
  return after === null || before === null ? null : (after - before) / divisor;
}

/** Writes transitions of nodes in turns. */
async function openWriter(connection: Connection) {
  await using parts = new AsyncDisposableStack();
  const database = parts.use(await openDatabase({ connection }));
  const notifier = parts.use(await createNotifier(database, () => {}));
  const transact = createTransact(database, notifier);
  const nodes = await nodeKeys(database.reader, {});
  let written = 0;
  const opened = parts.move();
  return {
    /** Returns the node with the number of its transition, and the time of the acknowledgement. */
    async write(): Promise<readonly [state: string, at: number]> {
      const id = nodes[written % nodes.length]?.id ?? "";
      // The registration is the first transition of a node.
      const sequence = 2 + Math.floor(written / nodes.length);
      await transact((transaction) =>
        move(transaction, [id], { from: "ENROLLED", event: "recover" }, { actor: "benchmark" }),
      );
      written += 1;
      return [`${id} ${sequence}`, performance.timeOrigin + performance.now()];
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

function startClients(testbed: Testbed) {
  const child = fork(fileURLToPath(new URL("stream-clients.ts", import.meta.url)));
  testbed.watch(child);
  return {
    ask(message: ToClients): Promise<Latencies> {
      return new Promise((resolve, reject) => {
        const onExit = (code: number | null) => reject(new Error(`The subscribers ended with ${code}.`));
        child.once("exit", onExit);
        child.once("message", (latencies: Latencies) => {
          child.off("exit", onExit);
          resolve(latencies);
        });
        child.send(message);
      });
    },
    [Symbol.asyncDispose]: () => end(child),
  };
}
