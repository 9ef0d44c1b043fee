/** `followRunLog` on a real server: the log of a run, over losses of the connection, to its end. */
import { afterAll, expect, test } from "vitest";
import { connect, followRunLog } from "../../packages/client/src/index.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
const connection = connect({ url: `${ostler.url}/graphql`, firstPauseMs: 20 });

const STEP = "clean.erase_disks";
const SAYS = Array.from({ length: 25 }, (_, index) => `line ${index}`);

async function runOf(name: string): Promise<string> {
  const { node } = await ostler.query<{ node: { operations: { nodes: { runs: { nodes: { id: string }[] } }[] } } }>(
    "query($name: String!) { node(by: { name: $name }) { operations(first: 1) { nodes { runs { nodes { id } } } } } }",
    { name },
  );
  return node.operations.nodes[0]?.runs.nodes[0]?.id ?? "";
}

test("the log of a run arrives whole and once, though the connection is lost in the middle of it", async () => {
  const [name = ""] = await ostler.register(["logged"], { steps: { [STEP]: { says: SAYS, waitSeconds: 1 } } });
  const uuid = await ostler.begin("commissionNodes", [name]);
  const store = followRunLog(connection, await runOf(name));
  const end = store.subscribe(() => {});
  try {
    await eventually("its first lines are there", () => store.getSnapshot().lines.length > 0);
    connection.renew();
    await ostler.operationEnds(uuid);
    const { log } = await ostler.query<{ log: { log: { nodes: { text: string; step: string }[] } } }>(
      "query($id: ID!) { log: run(id: $id) { log(first: 100) { nodes { text step } } } }",
      { id: await runOf(name) },
    );
    await eventually("all lines are there", () => store.getSnapshot().lines.length >= log.log.nodes.length);
    const { lines, droppedCount, error } = store.getSnapshot();
    expect(lines.map(({ text, step }) => ({ text, step }))).toEqual(log.log.nodes);
    expect(lines.filter(({ step }) => step === STEP).map(({ text }) => text)).toEqual(expect.arrayContaining(SAYS));
    expect({ droppedCount, error }).toEqual({ droppedCount: 0, error: null });
    // The service has completed the stream, so nothing holds the connection.
    await eventually("the connection is not needed", () => connection.getSnapshot().state === "idle");
  } finally {
    end();
  }
});

test("of a long log the newest lines are kept, and the others are counted", async () => {
  const [name = ""] = await ostler.register(["long"], { steps: { [STEP]: { says: SAYS } } });
  await ostler.operationEnds(await ostler.begin("commissionNodes", [name]));
  const store = followRunLog(connection, await runOf(name), 10);
  const end = store.subscribe(() => {});
  try {
    const whole = await eventually("the last line is there", async () => {
      const { log } = await ostler.query<{ log: { log: { nodes: { text: string }[] } } }>(
        "query($id: ID!) { log: run(id: $id) { log(first: 100) { nodes { text } } } }",
        { id: await runOf(name) },
      );
      const { lines, droppedCount } = store.getSnapshot();
      return lines.length + droppedCount === log.log.nodes.length && log.log.nodes;
    });
    const { lines, droppedCount } = store.getSnapshot();
    expect(lines.length).toBeLessThan(11);
    expect(lines.map(({ text }) => text)).toEqual(whole.slice(droppedCount).map(({ text }) => text));
  } finally {
    end();
  }
});

test("a run that does not exist ends the stream with an error", async () => {
  const store = followRunLog(connection, "00000000-0000-0000-0000-000000000000");
  const end = store.subscribe(() => {});
  const { error } = await eventually("it has ended", () => store.getSnapshot().error !== null && store.getSnapshot());
  expect(error).toMatchObject({ name: "WatchError", code: "NOT_FOUND" });
  end();
});
