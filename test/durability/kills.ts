/**
 * `npm run tool -- kills`: runs 500 commissions on the embedded database and kills the service with SIGKILL in the
 * middle, three times. A subscriber follows the log across the kills. Afterwards every node is ACTIVE, replaying the
 * log gives the table of nodes, the subscriber has missed nothing and received nothing twice, and no step that must not
 * run twice ran twice.
 *
 * Options: --nodes 500 --kills 3 --seed N. Prints the seed, a line per check, and finally `N passed, N failed`.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { ask } from "../support/ask.ts";
import { TRANSITION_FIELDS, wholeLog } from "../support/transition-log.ts";
import type { LoggedTransition } from "../support/transition-log.ts";
import { anySeed, chance } from "./lab.ts";

const { values } = parseArgs({
  options: {
    nodes: { type: "string", default: "500" },
    kills: { type: "string", default: "3" },
    seed: { type: "string", default: String(anySeed()) },
  },
});
const NODES = Number(values.nodes);
const KILLS = Number(values.kills);
/** Nodes that run a step which must not run twice, while the service is killed; their runs fit on one page. */
const FIRMWARE_NODES = Math.min(100, Math.max(20, Math.ceil(NODES / 10)));
const PORT = 20_000 + (Number(values.seed) % 10_000);
const URL_OF_SERVICE = `http://127.0.0.1:${PORT}`;
const END_MS = 300_000;

const random = chance(Number(values.seed));

const folder = mkdtempSync(join(tmpdir(), "ostler-kills-"));
const journal = join(folder, "journal.jsonl");
let service: ChildProcess | undefined;
let passed = 0;
let failed = 0;

function check(title: string, ok: boolean, detail = ""): void {
  if (ok) passed += 1;
  else failed += 1;
  console.log(`${ok ? "ok  " : "FAIL"} ${title}${detail && ` (${detail})`}`);
}

async function start(): Promise<void> {
  const child = spawn(
    process.execPath,
    [new URL("../../src/main.ts", import.meta.url).pathname, "--data", folder, "--port", String(PORT), "--log", "warn"],
    {
      env: { PATH: process.env["PATH"], FAKE_DRIVER_JOURNAL: journal },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  service = child;
  await new Promise<void>((ready, refuse) => {
    child.stdout.once("data", () => ready());
    child.once("exit", (code) => refuse(new Error(`The service ended (${code}) before it was ready.`)));
  });
}

async function kill(): Promise<void> {
  const child = service;
  if (!child) return;
  const gone = new Promise<void>((done) => child.once("exit", () => done()));
  child.kill("SIGKILL");
  await gone;
}

function query<Data>(text: string, variables: Record<string, unknown> = {}): Promise<Data> {
  return ask<Data>(URL_OF_SERVICE, text, { variables });
}

/** Follows the log across kills and keeps the items in the order of arrival. */
function follow(): { readonly seen: LoggedTransition[]; close(): Promise<void> } {
  const seen: LoggedTransition[] = [];
  const client = createClient({ url: `ws://127.0.0.1:${PORT}/graphql`, webSocketImpl: WebSocket, retryAttempts: 0 });
  let over = false;
  const loop = (async () => {
    while (!over) {
      try {
        const after = seen.at(-1)?.cursor ?? "0";
        for await (const { data } of client.iterate<{ nodeTransitions: LoggedTransition & { __typename: string } }>({
          query: `subscription ($after: String) { nodeTransitions(after: $after) { __typename ... on Transition { ${TRANSITION_FIELDS} } } }`,
          variables: { after },
        })) {
          if (data?.nodeTransitions.__typename === "Transition") seen.push(data.nodeTransitions);
          if (over) break;
        }
      } catch {
        await delay(100);
      }
    }
  })();
  return {
    seen,
    async close() {
      over = true;
      await client.dispose();
      await loop;
    },
  };
}

async function register(): Promise<void> {
  const settings = { delayMs: 40, waitSeconds: 0.5 };
  const nodes = [
    ...Array.from({ length: NODES }, (_, index) => ({
      name: `k-${index}`,
      driver: { fake: settings },
      labels: [{ key: "job", value: "commission" }],
    })),
    ...Array.from({ length: FIRMWARE_NODES }, (_, index) => ({
      name: `f-${index}`,
      driver: { fake: { steps: { "clean.update_firmware": { delayMs: 2_000 } } } },
      labels: [{ key: "job", value: "firmware" }],
    })),
  ];
  const { registerNodes } = await query<{ registerNodes: { count: number; errors: readonly { message: string }[] } }>(
    "mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { count errors { message } } }",
    { nodes },
  );
  if (registerNodes.count !== nodes.length)
    throw new Error(registerNodes.errors[0]?.message ?? "Not all nodes were registered.");
}

async function ended(filter: string): Promise<boolean> {
  const { operations } = await query<{ operations: { edges: readonly { node: { finishedAt: string | null } }[] } }>(
    `{ operations(filter: ${filter}, first: 10) { edges { node { finishedAt } } } }`,
  );
  return operations.edges.every(({ node }) => node.finishedAt !== null);
}

async function untilEnded(filter: string): Promise<boolean> {
  for (const giveUp = Date.now() + END_MS; Date.now() < giveUp; await delay(250)) if (await ended(filter)) return true;
  return false;
}

async function everyNode(): Promise<Map<string, { state: string; transitionCount: number }>> {
  const all = new Map<string, { state: string; transitionCount: number }>();
  for (let after: string | null = null; ;) {
    const {
      nodes,
    }: {
      nodes: {
        edges: readonly { node: { name: string; state: string; transitionCount: number } }[];
        pageInfo: { hasNextPage: boolean; endCursor: string };
      };
    } = await query(
      "query ($after: String) { nodes(first: 100, after: $after) { edges { node { name state transitionCount } } pageInfo { hasNextPage endCursor } } }",
      { after },
    );
    for (const { node } of nodes.edges) all.set(node.name, node);
    if (!nodes.pageInfo.hasNextPage) return all;
    after = nodes.pageInfo.endCursor;
  }
}

/** Number of entries of each attempt, and number of runs in which each node's step began. */
function entriesOf(step: string): Map<string, number> {
  const entries = new Map<string, number>();
  for (const line of readFileSync(journal, "utf8").split("\n")) {
    if (line === "") continue;
    const entry = JSON.parse(line) as { step?: string; attempt?: string; done?: true; abort?: true };
    if (entry.step === step && entry.attempt && !entry.done && !entry.abort)
      entries.set(entry.attempt, (entries.get(entry.attempt) ?? 0) + 1);
  }
  return entries;
}

async function main(): Promise<void> {
  console.log(`${NODES} commissions, ${KILLS} kills, seed ${values.seed}`);
  await start();
  await register();
  const reader = follow();
  await query(
    `mutation { manageNodes(input: { nodes: { filter: { labels: [{ key: "job", value: "firmware" }] } } }) { errors { message } } }`,
  );
  await untilEnded("{ kinds: [MANAGE] }");
  const began = Date.now();
  await query(
    `mutation { commissionNodes(input: { nodes: { filter: { labels: [{ key: "job", value: "commission" }] } } }) { errors { message } } }`,
  );
  await query(
    `mutation { cleanNodes(input: { nodes: { filter: { labels: [{ key: "job", value: "firmware" }] } }, steps: [{ name: "update_firmware", args: { version: "2.1" } }] }) { errors { message } } }`,
  );
  let killsInTheMiddle = 0;
  for (let count = 1; count <= KILLS; count += 1) {
    await delay(random.whole(count === 1 ? 800 : 1_500, count === 1 ? 1_200 : 4_500));
    const early = !(await ended("{ kinds: [COMMISSION] }"));
    if (early) killsInTheMiddle += 1;
    await kill();
    await start();
    console.log(
      `     kill ${count} ${early ? "in the middle" : "after the end"}, ${((Date.now() - began) / 1000).toFixed(1)} s after the beginning`,
    );
    if (count === 1) check("the first kill came in the middle of the work", early);
  }
  check(
    "both operations end",
    await untilEnded("{ kinds: [COMMISSION, CLEAN] }"),
    `${((Date.now() - began) / 1000).toFixed(1)} s`,
  );

  const { operations: commissions } = await query<{
    operations: { edges: readonly { node: { state: string; firstFailure: { message: string } | null } }[] };
  }>("{ operations(filter: { kinds: [COMMISSION] }, first: 1) { edges { node { state firstFailure { message } } } } }");
  const [commission] = commissions.edges.map(({ node }) => node);
  check("the commission succeeded", commission?.state === "SUCCEEDED", commission?.firstFailure?.message ?? "");

  const nodes = await everyNode();
  const commissioned = [...nodes].filter(([name]) => name.startsWith("k-"));
  check(
    "every commissioned node is ACTIVE",
    commissioned.length === NODES && commissioned.every(([, { state }]) => state === "ACTIVE"),
    JSON.stringify(
      Object.fromEntries(
        Map.groupBy(commissioned, ([, { state }]) => state)
          .entries()
          .map(([state, list]) => [state, list.length]),
      ),
    ),
  );

  const log = await wholeLog(URL_OF_SERVICE);
  check(
    "positions begin at 1 and have no hole",
    log.every(({ cursor }, index) => Number.parseInt(cursor, 10) === index + 1),
    `${log.length} transitions`,
  );
  const folded = new Map<string, { state: string; transitionCount: number }>();
  let broken = 0;
  for (const { nodeName, from, to, sequence } of log) {
    const before = folded.get(nodeName);
    if ((before?.state ?? null) !== from || (before?.transitionCount ?? 0) + 1 !== sequence) broken += 1;
    folded.set(nodeName, { state: to ?? "", transitionCount: sequence });
  }
  check("each node's transitions join end to end", broken === 0);
  check(
    "folding the log gives the table of nodes",
    folded.size === nodes.size &&
      [...nodes].every(
        ([name, node]) =>
          folded.get(name)?.state === node.state && folded.get(name)?.transitionCount === node.transitionCount,
      ),
  );
  if (killsInTheMiddle > 0)
    check(
      "recovered runs say so",
      log.some(({ event }) => event === "RECOVER"),
      `${log.filter(({ event }) => event === "RECOVER").length} of them`,
    );

  for (const giveUp = Date.now() + 20_000; reader.seen.length < log.length && Date.now() < giveUp;) await delay(100);
  await reader.close();
  check(
    "the subscriber missed nothing and saw nothing twice",
    reader.seen.length === log.length &&
      reader.seen.every(({ cursor }, index) => Number.parseInt(cursor, 10) === index + 1),
    `${reader.seen.length} of ${log.length}`,
  );

  const firmware = entriesOf("clean.update_firmware");
  const { operations } = await query<{
    operations: {
      edges: readonly {
        node: { runs: { edges: readonly { node: { state: string; failure: { code: string } | null } }[] } };
      }[];
    };
  }>(
    "{ operations(filter: { kinds: [CLEAN] }, first: 1) { edges { node { runs(first: 100) { edges { node { state failure { code } } } } } } } }",
  );
  const cleaned = operations.edges[0]?.node.runs.edges.map(({ node }) => node) ?? [];
  const interrupted = cleaned.filter(({ state }) => state !== "SUCCEEDED");
  check(
    "no step that must not be run twice was",
    // A run that was interrupted between the record of its step and the call of the driver has no entry.
    firmware.size + interrupted.length >= FIRMWARE_NODES && [...firmware.values()].every((count) => count === 1),
    `${firmware.size} of ${FIRMWARE_NODES} entered, each once`,
  );
  check(
    "each of them ended well, or says that it was interrupted",
    cleaned.length === FIRMWARE_NODES && interrupted.every(({ failure }) => failure?.code === "INTERRUPTED"),
    `${interrupted.length} interrupted`,
  );
  const twice = [...entriesOf("deploy.write_image").values()].filter((count) => count > 1).length;
  console.log(`     ${twice} of ${NODES} idempotent write_image steps were entered again`);
}

try {
  await main();
} catch (error) {
  check(error instanceof Error ? error.message : String(error), false);
} finally {
  await kill();
  for (let tries = 0; tries < 50; tries += 1) {
    try {
      rmSync(folder, { recursive: true, force: true });
      break;
    } catch {
      await delay(100);
    }
  }
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
