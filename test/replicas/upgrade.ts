/**
 * `npm run tool -- upgrade`: replaces the replicas of an older release one by one with this one, with work in progress.
 * They have OSTLER_TOKEN and no other setting of access, which means the same in both releases. A fleet is
 * commissioned, and a subscriber moves from replica to replica with its cursor. In the middle an old replica starts
 * once more on the new release's data, as after a rollback. The new release adds a migration with a column. Finally
 * nothing is lost, doubled or illegal. Then the package of the older release is replaced by that of HEAD with `dpkg
 * -i`, in a system of its own, if both build packages.
 *
 * Options: --from <commit> --nodes 1000. Without `--from`, the older release is the newest tag; before the first tag it
 * is the commit that added the first migration. Needs the history of the repository. Prints a line per check, and
 * finally `N passed, N failed`.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { eventually } from "../support/eventually.ts";
import { checkPackageUpgrade, missingForPackages } from "../release/upgrade.ts";
import { olderRelease } from "../support/older-release.ts";
import { check, part, prove } from "../support/proof.ts";
import { logFlaws, wholeLog } from "../support/transition-log.ts";
import { ask, commission, entered, follow, operationOf, register, scratch, startReplica, startServer } from "./lab.ts";
import type { Replica } from "./lab.ts";

const { values } = parseArgs({
  options: {
    from: { type: "string", default: olderRelease() ?? "" },
    nodes: { type: "string", default: "1000" },
  },
});
if (values.from === "") throw new Error("The history is not in this clone: name the older release with --from.");
const NODES = Number(values.nodes);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Files that a replica needs; its packages are linked. */
const PARTS = ["src", "plugins", "drizzle", "package.json"];
const END_MS = 600_000;
const TOKEN = "token-of-both-releases";
/** Duration of a step: long enough that replicas can also start in the middle of a small fleet's work. */
const STEP_MS = Math.round(Math.max(200, 200_000 / NODES));

/** Copies the code of a commit, or of the working tree, to a separate folder. */
function codeOf(commit: string | null, folder: string): string {
  mkdirSync(folder);
  if (commit === null) for (const path of PARTS) cpSync(join(ROOT, path), join(folder, path), { recursive: true });
  else
    execFileSync("tar", ["-x", "-C", folder], {
      input: execFileSync("git", ["archive", commit, ...PARTS], { cwd: ROOT, maxBuffer: 1e9 }),
    });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** A release before 0.1.0 refuses a variable that it does not know. */
function environmentOf(root: string): Readonly<Record<string, string | undefined>> {
  const variables = readFileSync(join(root, "src/config/variables.ts"), "utf8");
  return { OSTLER_TOKEN: TOKEN, ...(!variables.includes("OSTLER_SECRET_KEYS") && { OSTLER_SECRET_KEYS: undefined }) };
}

function addMigration(root: string): void {
  const folder = join(root, "drizzle", "20990101000000_for_the_test");
  mkdirSync(folder);
  writeFileSync(join(folder, "migration.sql"), 'ALTER TABLE "nodes" ADD COLUMN "for_the_test" text;');
}

async function replicaByReplica(): Promise<void> {
  using place = scratch();
  await using owned = new AsyncDisposableStack();
  const old = codeOf(values.from, join(place.folder, "old"));
  const fresh = codeOf(null, join(place.folder, "fresh"));
  addMigration(fresh);
  const server = owned.use(await startServer(place.folder, true));
  const all: Replica[] = [];
  const start = async (root: string) => {
    const environment = environmentOf(root);
    const replica = owned.use(await startReplica(place.folder, { databaseUrl: server.url, root, environment }));
    all.push(replica);
    return replica;
  };
  const first = await start(old);
  const second = await start(old);
  const names = Array.from({ length: NODES }, (_, index) => `node-${index}`);
  for (let at = 0; at < NODES; at += 500)
    await register(first.url, names.slice(at, at + 500), { delayMs: STEP_MS, waitSeconds: 0.5 });
  const follower = follow(first.url);
  const began = Date.now();
  const operation = await commission(first.url, names);
  const steps = () => all.flatMap((replica) => entered(replica.journal())).length;
  const share = async (of: number) => eventually("work goes on", () => steps() > of * NODES, END_MS);
  const leave = async (replica: Replica, to: Replica) => {
    follower.moveTo(to.url);
    const { code, ms } = await replica.end();
    check("a replica that is replaced ends with 0", code === 0, `${ms.toFixed(0)} ms`);
  };

  await share(0.5);
  const third = await start(fresh);
  check("the new release migrates under the old one's work", third.log().includes('"msg":"migrated the database"'));
  await leave(first, third);
  await share(1.5);
  const back = await start(old);
  check("the old release starts on the newer database, while the new one runs", true);
  await share(2.5);
  await leave(back, third);
  const fourth = await start(fresh);
  await leave(second, fourth);
  check(
    "the last old replica left in the middle of the work",
    (await operationOf(fourth.url, operation)).finishedAt === null,
    `${steps()} steps were entered`,
  );
  await eventually(
    "the operation has ended",
    async () => (await operationOf(fourth.url, operation)).finishedAt !== null,
    END_MS,
  );
  const { state } = await operationOf(fourth.url, operation);
  check("the commission succeeds", state === "SUCCEEDED", `${state}, ${((Date.now() - began) / 1_000).toFixed(1)} s`);

  const { viewer } = await ask<{ viewer: unknown }>(fourth.url, "{ viewer { subject scope } }");
  check("the token has all rights", JSON.stringify(viewer) === '{"subject":"token","scope":"ADMIN"}');

  const log = await wholeLog(fourth.url, TOKEN);
  check("no transition is lost, doubled, or does not join", logFlaws(log).length === 0, `${log.length} transitions`);
  check(
    "every node is ACTIVE",
    new Map(log.map(({ nodeName, to }) => [nodeName, to])).values().every((to) => to === "ACTIVE"),
  );
  await eventually("the subscriber has seen all", () => follower.seen.length >= log.length).catch(() => {});
  check(
    "the subscriber has missed nothing and seen nothing twice",
    follower.seen.length === log.length &&
      follower.seen.every(({ cursor }, index) => Number.parseInt(cursor, 10) === index + 1),
    `${follower.seen.length} of ${log.length}`,
  );
  await follower.close();
  const recovered = log.filter(({ event }) => event === "RECOVER").length;
  const entries = all.flatMap((replica) => entered(replica.journal())).filter(({ memo }) => memo === null);
  const repeated = entries.length - new Set(entries.map(({ attempt }) => attempt)).size;
  check(
    "no step was entered twice but those that were taken over",
    repeated <= recovered,
    `${repeated} of ${entries.length}, ${recovered} taken over`,
  );
  const complaints = all.flatMap((replica) =>
    replica
      .log()
      .split("\n")
      .filter((line) => /"level":(50|60)/.test(line)),
  );
  check("no replica has logged an error", complaints.length === 0, complaints[0]?.slice(0, 500) ?? "");
}

async function byPackage(): Promise<void> {
  using place = scratch();
  await checkPackageUpgrade(values.from, place.folder);
}

await prove(async () => {
  await part(`${NODES} nodes, from ${values.from} to the working tree, replica by replica`, replicaByReplica);
  const missing = missingForPackages(values.from);
  if (missing === null) await part(`From ${values.from} to HEAD, by dpkg -i`, byPackage);
  else console.log(`\ndpkg -i is skipped: ${missing}`);
});
