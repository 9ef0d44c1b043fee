/**
 * `npm run tool -- secret-kills`: 1,000 nodes are commissioned by two replicas while `ostler secrets rotate` is killed
 * with SIGKILL at 20 moments, each time in another place of its work. The repeated command succeeds each time, and in
 * the end every secret is readable and has the newest data key, and every node is ACTIVE.
 *
 * Options: --nodes 1000 --kills 20. Prints a line per check, and finally `N passed, N failed`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { dataKeyRows, orThrow } from "../../src/store/secrets/keyring.ts";
import { countSecrets } from "../../src/store/secrets/reencryption.ts";
import { SECRETS, secretsOf } from "../../src/store/secrets/secrets.ts";
import { TEST_KEYS, testKeyring } from "../support/keyring.ts";
import { check, prove } from "../support/proof.ts";
import { runEngine } from "../support/running-engine.ts";
import { openLab } from "./lab.ts";

const { values } = parseArgs({
  options: { nodes: { type: "string", default: "1000" }, kills: { type: "string", default: "20" } },
});
const NODES = Number(values.nodes);
const KILLS = Number(values.kills);
const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const OPERATOR = { actor: "operator", project: "default", scope: "ADMIN" as const };
const END_MS = 300_000;
/** How often a kill is tried that comes after the rotation. */
const TRIES = 8;

const passwordOf = (index: number) => `password-${index}`;

await prove(async () => {
  // Below the range that the kernel assigns to outgoing connections.
  const tcpPort = 20_000 + Math.floor(Math.random() * 12_000);
  await using _ = await openLab({ tcpPort });
  const url = `postgres://ostler@127.0.0.1:${tcpPort}/postgres`;
  await using one = await runEngine({ url });
  await using other = await runEngine({ url });
  const nodes = Array.from(Array(NODES).keys(), (index) => ({
    name: `n-${index}`,
    driver: "fake",
    settings: { password: passwordOf(index), delayMs: 40, waitSeconds: 0.5 },
  }));
  const registered = await one.engine.registerNodes(OPERATOR, nodes);
  const { database } = other;
  await one.engine.submit(OPERATOR, { kind: "COMMISSION", nodes: { names: nodes.map(({ name }) => name) } });

  const isUnfinished = async () => (await dataKeyRows(database.reader)).at(-1)?.rotatedAt === null;
  const first = await rotate(url, isUnfinished);
  check("a rotation that is not killed succeeds", first.code === 0, first.output.trim());
  // The first one also compiles what it loads.
  const { workMs } = await rotate(url, isUnfinished);
  const repeated: (number | null)[] = [];
  for (let count = 0; repeated.length < KILLS && count < TRIES * KILLS; count += 1) {
    await rotate(url, isUnfinished, (workMs * (count % KILLS)) / KILLS);
    if (await isUnfinished()) repeated.push((await rotate(url, isUnfinished)).code);
  }
  check(`${KILLS} kills left a rotation unfinished`, repeated.length === KILLS, String(repeated.length));
  check(
    "each repeated rotation succeeds",
    repeated.every((code) => code === 0),
    repeated.join(),
  );

  const newest = (await dataKeyRows(database.reader)).at(-1);
  check("the rotation is finished", newest?.rotatedAt != null);
  for (const giveUp = Date.now() + END_MS; Date.now() < giveUp; await delay(250)) {
    const [row] = await database.reader.execute<{ count: string }>(
      "select count(*)::text as count from operations where finished_at is null",
    );
    if (row?.count === "0") break;
  }
  const states = await database.reader.execute<{ state: string; count: string }>(
    "select state, count(*)::text as count from nodes group by state",
  );
  check("every node is ACTIVE", states.length === 1 && states[0]?.state === "ACTIVE", JSON.stringify(states));
  const counts = await countSecrets(database, new Set());
  check(
    "every secret has the newest data key, and none is lost",
    counts.size === 1 && counts.get(newest?.id ?? "") === NODES,
    JSON.stringify([...counts]),
  );
  const found = await secretsOf(database.reader, await testKeyring(database), SECRETS.ofNodes, registered.nodeIds);
  check(
    "every secret is readable, and that of its node",
    registered.nodeIds.every((id, index) => orThrow(found.get(id) ?? {})["fake"]?.["password"] === passwordOf(index)),
  );
});

/** Rotates once, and is killed some time after the data key was added. */
async function rotate(url: string, isUnfinished: () => Promise<boolean>, killAfterMs?: number) {
  const child = spawn(process.execPath, [MAIN, "secrets", "rotate"], {
    env: { PATH: process.env["PATH"], DATABASE_URL: url, OSTLER_SECRET_KEYS: TEST_KEYS },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = Promise.all([text(child.stdout), once(child, "exit") as Promise<[number | null]>]);
  while (child.exitCode === null && !(await isUnfinished())) await delay(1);
  const began = performance.now();
  if (killAfterMs !== undefined) setTimeout(() => child.kill("SIGKILL"), killAfterMs);
  const [output, [code]] = await ended;
  return { code, output, workMs: performance.now() - began };
}
