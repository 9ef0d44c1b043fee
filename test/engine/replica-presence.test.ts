/** Runs that wait while nobody works are told of by those who only serve. */
import { expect, test } from "vitest";
import { watchReplicaPresence } from "../../src/engine/scheduling/replica-presence.ts";
import { createQueue } from "../../src/engine/jobs/queue.ts";
import { createLog } from "../../src/log.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { engineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

/** The queue as a replica sees it that only serves; nobody works yet. */
async function aServer(left: AsyncDisposableStack) {
  const ostler = left.use(await engineUnderTest({ started: false }));
  const bell = left.use(await createNotifier(ostler.database, () => {}));
  const queue = await createQueue({
    connection: ostler.test.connection,
    bell,
    log: createLog("silent"),
    concurrency: 1,
    connectionsMax: 2,
    supervises: false,
  });
  left.defer(async () => void (await queue.stop(0)));
  return { ostler, queue };
}

test("a replica that serves says once that nobody works, and once that somebody does again", async () => {
  await using left = new AsyncDisposableStack();
  const { ostler, queue } = await aServer(left);
  const told: string[] = [];
  const log = {
    warn: (_: unknown, text: string) => told.push(text),
    info: (text: string) => told.push(text),
    debug: () => {},
  };
  const attendance = watchReplicaPresence({ queue, log: log as never, everyMs: 20, seconds: 1 });
  left.defer(() => attendance.close());

  const node = await ostler
    .aNode()
    .scripted({ "deploy.write_image": { silent: true } })
    .made();
  expect(await queue.isUnattended(1)).toBe(false);
  await ostler.begin("COMMISSION", [node]);
  await eventually("it is said", () => told.length === 1);
  expect(told[0]).toContain("no replica takes work");
  await ostler.engine.start();
  await eventually("it is taken back", () => told.length === 2);
  expect(told[1]).toBe("a replica takes work again");
});

test("so are runs in the hands of somebody who is not heard of any more", async () => {
  await using left = new AsyncDisposableStack();
  const { ostler, queue } = await aServer(left);
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
