/** Secrets at rest: what a dump of the database shows, and what happens to a node whose secret cannot be read. */
import { afterAll, describe, expect, test } from "vitest";
import type { AgentReport } from "../../src/engine/agents/agents.ts";
import { keyIdOf } from "../../src/store/secrets/cipher.ts";
import { dataKeyRows, openKeyring } from "../../src/store/secrets/keyring.ts";
import { countSecrets, encryptAllSecrets } from "../../src/store/secrets/reencryption.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { secretsOf, testKeyring } from "../support/keyring.ts";

const CANARIES = ["canary-password", "canary-user-data", "canary-of-image", "canary-login", "canary-task"];
const USER_DATA = "#cloud-config\npassword: canary-user-data";
const NONE: ReadonlySet<string> = new Set();

const paths = new Map<string, string>();
const media = new Map<string, string>();

const DRIVERS = [
  aDriver("guarded", {
    secret: true,
    usesAgent: true,
    clean: stepsOf(
      aStep("call", "clean", async ({ node, memo, callback, callbackPath }) => {
        if (memo !== null) return { kind: "done", output: { callback } };
        paths.set(node.name, callbackPath);
        return { kind: "wait", callback: true, seconds: 600, memo: "called" };
      }),
      aStep(
        "task",
        "clean",
        async ({ node, memo, callback, agent }) => {
          if (memo !== null) return { kind: "done", output: { callback } };
          const { mediumUrl } = await agent.open({ medium: "ISO", architecture: "X64" });
          media.set(node.name, mediumUrl ?? "");
          await agent.assign({ kind: "write_image", args: { password: "canary-task" } });
          return { kind: "wait", callback: true, seconds: 600, memo: "assigned" };
        },
        { priority: 0 },
      ),
    ),
    deploy: stepsOf(
      aStep("install", "deploy", async ({ memo, userData }) =>
        memo === null
          ? { kind: "wait", callback: true, seconds: 600, memo: userData?.length ?? 0 }
          : { kind: "done", output: {} },
      ),
      aStep("remove", "undeploy", async () => ({ kind: "done" })),
    ),
  }),
];

const PROVISIONING = {
  url: "http://10.0.0.1:4010",
  mediaFor: (architecture: string) => (architecture === "X64" ? { version: "1.0.0", protocol: 2 } : null),
};
const ostler = await engineUnderTest({ drivers: DRIVERS, provisioning: PROVISIONING });
afterAll(() => ostler[Symbol.asyncDispose]());
const { sql } = ostler.test;

const aGuardedNode = (password = "canary-password") =>
  ostler.aNode().in("AVAILABLE").with("guarded", { password }).made();

/** A node that waits for a callback. */
async function aCalledNode(): Promise<TestNode> {
  const node = await aGuardedNode();
  await ostler.begin("CLEAN", [node]);
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  return node;
}

async function storedPassword({ id }: TestNode): Promise<string> {
  const [row] = await sql`select secrets->'guarded'->>'password' as password from node_secrets where node_id = ${id}`;
  return String(row?.["password"]);
}

const tokenOf = ({ name }: TestNode) => paths.get(name)?.split("/").at(-1) ?? "";

async function anAgentAtWork(node: TestNode) {
  await ostler.begin("CLEAN", [node], { options: { steps: [{ interface: "clean", name: "task", args: {} }] } });
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  const [session = "", secret = ""] = (media.get(node.name)?.split("/")[4] ?? "").split(".");
  return { session, secret };
}

const REPORT: AgentReport = {
  protocol: 2,
  version: "1.0.0",
  instance: "one",
  architecture: "X64",
  bootMode: "UEFI",
  address: "10.0.0.7",
  macs: [],
};

describe("a dump of the database", () => {
  test("holds no password, login, user data, arguments of a task, or key of a callback [R-910]", async () => {
    const node = await aGuardedNode();
    const [other, third] = [await aCalledNode(), await aGuardedNode()];
    const image = {
      name: "debian",
      url: "http://images.example/debian.raw",
      format: "RAW",
      sizeBytes: 10,
      checksum: { algorithm: "SHA256", value: "ab".repeat(32) },
      architecture: "X64",
      bootMode: null,
      userData: "canary-of-image",
    } as const;
    expect((await ostler.engine.registerImages(ALICE, [image])).refusals).toEqual([]);
    const deployment = { image: { name: "debian" }, userData: USER_DATA, idempotencyKey: "once" };
    await ostler.begin("DEPLOY", [third], deployment);
    await ostler.nodeBecomes(third, "DEPLOY_WAIT");
    const bearer = await anAgentAtWork(node);
    const rows = (await ostler.dump()).join("\n");
    expect(CANARIES.filter((canary) => rows.includes(canary))).toEqual([]);
    // The token cannot be computed from what the dump has.
    const [run] = await sql`select callback_secret, callback_key from runs where node_id = ${other.id}`;
    expect(run?.["callback_key"]).toMatch(/^[0-9a-f]{8}$/);
    expect(rows).not.toContain(tokenOf(other).split(".")[1]);
    // And all of them are there.
    expect(await secretsOf(ostler.database, node.id)).toEqual({ guarded: { password: "canary-password" } });
    expect(await ostler.engine.agents.poll(bearer, REPORT)).toMatchObject({
      task: { args: { password: "canary-task" } },
    });
    expect(await ostler.engine.receiveCallback(tokenOf(other), { up: true })).toBe("TAKEN");
  });
});

describe("a secret that cannot be read", () => {
  test.each([
    {
      what: "that was moved from another node",
      spoil: async (node: TestNode) => {
        const other = await aGuardedNode();
        await sql`update node_secrets set secrets = (select secrets from node_secrets where node_id = ${other.id}) where node_id = ${node.id}`;
      },
      says: /the secret node_secrets\.guarded\.password of \S+ is not what was encrypted there with data key [0-9a-f]{8}: it was changed, or moved from another row/,
    },
    {
      what: "whose data key was deleted",
      spoil: async (node: TestNode) => {
        await sql`update node_secrets set secrets = regexp_replace(secrets::text, 'v1[.][0-9a-f]+[.]', 'v1.0badc0de.')::jsonb where node_id = ${node.id}`;
      },
      says: /the secret node_secrets\.guarded\.password of \S+ cannot be read: it needs data key 0badc0de, which the table secret_keys does not have/,
    },
  ])("$what fails the one node, in one sentence without its value [R-911]", async ({ spoil, says }) => {
    const [node, sound] = [await aGuardedNode(), await aGuardedNode()];
    await spoil(node);
    const id = await ostler.begin("CLEAN", [node, sound], { onFailure: "LEAVE" });
    await ostler.nodeBecomes(sound, "CLEAN_WAIT");
    const failed = await eventually("the run fails", async () => (await ostler.run(id, node)).failure ?? false);
    expect(failed).toMatchObject({ code: "SECRET_UNREADABLE", message: expect.stringMatching(says) as string });
    const edited = await ostler.engine.updateNodes(ALICE, {
      nodes: { names: [node.name, sound.name] },
      acceptance: "BEST_EFFORT",
      dryRun: true,
      patch: { settingsOfDrivers: [{ driver: "guarded", settings: { address: "10.0.0.9" } }] },
    });
    expect(edited.results.map(({ outcome }) => outcome)).toEqual(["REFUSED", "CHANGED"]);
    expect(edited.results[0]?.refusal).toMatchObject({
      code: "SECRET_UNREADABLE",
      message: expect.stringMatching(says) as string,
    });
    const { answers } = await ostler.engine.readPower({ names: [node.name] });
    expect(JSON.stringify(answers)).toMatch(says);
  });

  test("that is the user data of an image refuses the deployments of that image [R-911]", async () => {
    const { imageIds } = await ostler.engine.registerImages(ALICE, [
      {
        name: "spoiled",
        url: "http://images.example/spoiled.raw",
        format: "RAW",
        sizeBytes: 10,
        checksum: { algorithm: "SHA256", value: "cd".repeat(32) },
        architecture: "X64",
        bootMode: null,
        userData: USER_DATA,
      },
    ]);
    await sql`update image_secrets set user_data = regexp_replace(user_data, 'v1[.][0-9a-f]+[.]', 'v1.0badc0de.') where image_id = ${imageIds[0] ?? ""}`;
    const node = await aGuardedNode();
    const { refusals } = await ostler.submit("DEPLOY", [node], { image: { name: "spoiled" } });
    expect(refusals).toMatchObject([
      { code: "SECRET_UNREADABLE", message: expect.stringContaining("Image spoiled: ") as string },
    ]);
    const repaired = await ostler.engine.updateImage(ALICE, { name: "spoiled" }, { userData: USER_DATA });
    expect(repaired.refusals).toEqual([]);
    expect((await ostler.submit("DEPLOY", [node], { image: { name: "spoiled" }, dryRun: true })).refusals).toEqual([]);
  });
});

describe("a rotation", () => {
  test("is met by a process that has the earlier data key only, and running nodes keep their callbacks [R-912]", async () => {
    const node = await aCalledNode();
    const earlier = await testKeyring(ostler.database);
    const mine = await testKeyring(ostler.database);
    const { id, isNew } = await ostler.database.transaction((tx) => mine.rotate(tx));
    expect(isNew).toBe(true);
    const { problems } = await encryptAllSecrets(ostler.database, mine, NONE);
    // What the tests before have spoiled.
    expect(problems.filter((problem) => !/0badc0de|moved from another row/.test(problem))).toEqual([]);
    const stored = await storedPassword(node);
    expect(keyIdOf(stored)).toBe(id);
    // The engine under test has not met the key.
    expect(keyIdOf(await storedPassword(await aGuardedNode()))).toBe(id);
    const open = await earlier.decryption(ostler.database.reader, [stored]);
    expect(open(["node_secrets", node.id, "guarded", "password"], stored)).toBe("canary-password");
    expect(await ostler.engine.receiveCallback(tokenOf(node), { up: true })).toBe("TAKEN");
  });

  test("that was interrupted is continued to the same data key [R-913]", async () => {
    const keyring = await testKeyring(ostler.database);
    const first = await ostler.database.transaction((tx) => keyring.rotate(tx));
    expect(await ostler.database.transaction((tx) => keyring.rotate(tx))).toEqual({ id: first.id, isNew: false });
    const { problems } = await encryptAllSecrets(ostler.database, keyring, NONE);
    const counts = await countSecrets(ostler.database, NONE);
    const others = [...counts].filter(([id]) => id !== first.id).reduce((sum, [, count]) => sum + count, 0);
    expect(others).toBe(problems.length);
    expect((await ostler.database.transaction((tx) => keyring.rotate(tx))).isNew).toBe(true);
  });

  test("that was interrupted is not taken for finished by an encrypt that began before it [R-913]", async () => {
    const keyring = await testKeyring(ostler.database);
    await encryptAllSecrets(ostler.database, keyring, NONE);
    let added = "";
    // The last transaction of the encryption, as other processes see it: a data key was added since its first one.
    const transaction: typeof ostler.database.transaction = async (work) => {
      if (added === "") added = (await ostler.database.transaction((tx) => keyring.rotate(tx))).id;
      return ostler.database.transaction(work);
    };
    await encryptAllSecrets({ reader: ostler.database.reader, transaction }, keyring, NONE);
    expect(await ostler.database.transaction((tx) => keyring.rotate(tx))).toEqual({ id: added, isNew: false });
    await encryptAllSecrets(ostler.database, keyring, NONE);
  });

  test("waits for a transaction that encrypts with the earlier data key, so that it misses no secret [R-914]", async () => {
    const keyring = await testKeyring(ostler.database);
    await encryptAllSecrets(ostler.database, keyring, NONE);
    const order: string[] = [];
    let rotating: Promise<unknown> = Promise.resolve();
    await ostler.database.transaction(async (tx) => {
      await keyring.encryption(tx);
      rotating = ostler.database.transaction((other) => keyring.rotate(other)).then(() => order.push("rotated"));
      await eventually("the rotation waits", async () => {
        const [waiting] = await sql`select 1 from pg_locks where relation = 'secret_keys'::regclass and not granted`;
        return waiting;
      });
      order.push("encrypted");
    });
    await rotating;
    expect(order).toEqual(["encrypted", "rotated"]);
  });
});

describe("an agent whose node has a secret that cannot be read", () => {
  test("ends its step with that reason at its result, of which nothing is stored [R-911]", async () => {
    const node = await aGuardedNode();
    const bearer = await anAgentAtWork(node);
    const order = await ostler.engine.agents.poll(bearer, REPORT);
    const task = order !== "UNKNOWN" && order !== "STRANGER" && order.do === "task" ? order.task.id : "";
    await sql`update node_secrets set secrets = regexp_replace(secrets::text, 'v1[.][0-9a-f]+[.]', 'v1.0badc0de.')::jsonb where node_id = ${node.id}`;
    const progress = { ...REPORT, task: { id: task, percent: 50, message: "canary-progress" } };
    expect(await ostler.engine.agents.poll(bearer, progress)).toEqual({ do: "continue" });
    const output = { word: "canary-output" };
    expect(await ostler.engine.agents.result(bearer, "one", { task, ok: true, output })).toBe("TAKEN");
    const [attempt] = await sql`
      select callback from attempts join runs on runs.id = attempts.run_id where runs.node_id = ${node.id}`;
    expect(attempt?.["callback"]).toMatchObject({ task, ok: false, error: { code: "SECRET_UNREADABLE" } });
    expect((await ostler.dump()).join("\n")).not.toMatch(/canary-(progress|output)/);
  });
});

describe("secrets in clear", () => {
  test("are read, and encrypted by encrypt [R-915]", async () => {
    const node = await aGuardedNode();
    await sql`update node_secrets set secrets = '{"guarded":{"password":"canary-plain"}}' where node_id = ${node.id}`;
    expect(await secretsOf(ostler.database, node.id)).toEqual({ guarded: { password: "canary-plain" } });
    await encryptAllSecrets(ostler.database, await testKeyring(ostler.database), NONE);
    expect(JSON.stringify(await sql`select secrets from node_secrets where node_id = ${node.id}`)).not.toContain(
      "canary",
    );
    expect(await secretsOf(ostler.database, node.id)).toEqual({ guarded: { password: "canary-plain" } });
  });

  test("are counted, and a variable that is not secret is not, whatever its value looks like [R-915]", async () => {
    const { clusterId } = await ostler.engine.createCluster(ALICE, {
      name: "plain",
      variables: { release: "v1.30.2" },
    });
    const before = await countSecrets(ostler.database, NONE);
    expect(before.has(null)).toBe(false);
    const token = JSON.stringify({ release: "v1.30.2", token: "canary-token", nothing: null });
    await sql`update clusters set variables = ${token}::text::jsonb where id = ${clusterId ?? ""}`;
    const declared = new Set(["token", "nothing", 'with "quotes"']);
    expect(await countSecrets(ostler.database, declared)).toEqual(new Map([...before, [null, 1]]));
    const { count } = await encryptAllSecrets(ostler.database, await testKeyring(ostler.database), declared);
    expect(count).toBe(1);
    // Also once no driver declares it.
    const newest = (await dataKeyRows(ostler.database.reader)).at(-1)?.id ?? "";
    expect((await countSecrets(ostler.database, NONE)).get(newest)).toBe((before.get(newest) ?? 0) + 1);
    const [row] = await sql`select variables from clusters where id = ${clusterId ?? ""}`;
    expect(row?.["variables"]).toMatchObject({
      release: "v1.30.2",
      nothing: null,
      token: expect.stringMatching(/^v1\./),
    });
  });

  test("need the keys once some are encrypted: off is refused [R-916]", async () => {
    await expect(openKeyring(ostler.database, "off")).rejects.toThrow(
      /^OSTLER_SECRET_KEYS is off, but secrets of this database are encrypted with master key test\. /,
    );
  });
});
