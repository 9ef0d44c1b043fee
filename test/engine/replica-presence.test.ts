/** A replica that only serves warns about runs that wait while no worker is running. */
import { expect, test } from "vitest";
import { watchReplicaPresence } from "../../src/engine/scheduling/replica-presence.ts";
import { createQueue } from "../../src/engine/jobs/queue.ts";
import { createLog } from "../../src/log.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { engineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

/** The queue as a serve-only replica sees it, with no worker running yet. */
async function aServer(owned: AsyncDisposableStack) {
  const ostler = owned.use(await engineUnderTest({ started: false }));
  const notifier = owned.use(await createNotifier(ostler.database, () => {}));
  const queue = await createQueue({
    connection: ostler.test.connection,
    notifier,
    log: createLog("silent"),
    concurrency: 1,
    connectionsMax: 2,
    supervises: false,
  });
  owned.defer(async () => void (await queue.stop(0)));
  return { ostler, queue };
}

test("replica presence: a serve-only replica logs once that no worker is running, and once that one is again", async () => {
  await using owned = new AsyncDisposableStack();
  const { ostler, queue } = await aServer(owned);
  const logged: string[] = [];
  const log = {
    warn: (_: unknown, text: string) => logged.push(text),
    info: (text: string) => logged.push(text),
    debug: () => {},
  };
  const presence = watchReplicaPresence({ queue, log: log as never, everyMs: 20, seconds: 1 });
  owned.defer(() => presence.close());

  const node = await ostler
    .aNode()
    .scripted({ "deploy.write_image": { silent: true } })
    .made();
  expect(await queue.isUnattended(1)).toBe(false);
  await ostler.begin("COMMISSION", [node]);
  await eventually("the warning is logged", () => logged.length === 1);
  expect(logged[0]).toContain("no replica takes work");
  await ostler.engine.start();
  await eventually("the all-clear is logged", () => logged.length === 2);
  expect(logged[1]).toBe("a replica takes work again");
});

test("replica presence: runs whose worker has stopped its heartbeat count as unattended", async () => {
  await using owned = new AsyncDisposableStack();
  const { ostler, queue } = await aServer(owned);
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { silent: true } })
    .made();
  const victim = await ostler.inAnotherProcess();
  await ostler.begin("DEPLOY", [node]);
  await eventually("the step is entered", () => ostler.entered(node).includes("deploy.prepare"));
  expect(await queue.isUnattended(45)).toBe(false);
  await victim.kill();
  await ostler.leasesRunOut();
  expect(await queue.isUnattended(45)).toBe(true);
});
