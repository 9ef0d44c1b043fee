/** A replica that only serves warns about runs that wait while no worker is running. */
import { expect, test } from "vitest";
import { watchReplicaPresence } from "../../src/engine/scheduling/replica-presence.ts";
import { isWorkUnattended } from "../../src/store/runs/run-claims.ts";
import { engineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

test("replica presence: a serve-only replica logs once that no worker is running, and once that one is again", async () => {
  await using owned = new AsyncDisposableStack();
  const ostler = owned.use(await engineUnderTest({ started: false }));
  const isUnattended = (seconds: number) => isWorkUnattended(ostler.database.reader, seconds);
  const logged: string[] = [];
  const log = {
    warn: (_: unknown, text: string) => logged.push(text),
    info: (text: string) => logged.push(text),
    debug: () => {},
  };
  const presence = watchReplicaPresence({ isUnattended, log: log as never, everyMs: 20, seconds: 1 });
  owned.defer(() => presence.close());

  const node = await ostler
    .aNode()
    .scripted({ "deploy.write_image": { silent: true } })
    .made();
  expect(await isUnattended(1)).toBe(false);
  await ostler.begin("COMMISSION", [node]);
  await eventually("the warning is logged", () => logged.length === 1);
  expect(logged[0]).toContain("no replica takes work");
  await ostler.engine.start();
  await eventually("the all-clear is logged", () => logged.length === 2);
  expect(logged[1]).toBe("a replica takes work again");
});

test("replica presence: runs whose worker has stopped to renew its lease count as unattended", async () => {
  await using ostler = await engineUnderTest({ started: false });
  const isUnattended = () => isWorkUnattended(ostler.database.reader, 45);
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { silent: true } })
    .made();
  const victim = await ostler.inAnotherProcess();
  await ostler.begin("DEPLOY", [node]);
  await eventually("the step is entered", () => ostler.entered(node).includes("deploy.prepare"));
  expect(await isUnattended()).toBe(false);
  await victim.kill();
  await ostler.leasesRunOut();
  expect(await isUnattended()).toBe(true);
});
