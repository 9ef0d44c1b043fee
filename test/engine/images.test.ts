/** Images: what is checked when they are registered, changed, deleted and used, and what stays secret. */
import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { NewImage } from "../../src/engine/images/images.ts";
import { imagesByNames } from "../../src/store/images.ts";
import type { ImageRow } from "../../src/store/images.ts";
import { insertInventories } from "../../src/store/nodes/nodes.ts";
import { SECRETS } from "../../src/store/secrets/secrets.ts";
import { secretsIn } from "../support/keyring.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import type { AnyCall } from "../support/driver.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

/** The image and the user data that the steps of the driver received, by node and step. */
const received: unknown[] = [];
const noting = async ({ node, image, userData }: AnyCall) => {
  received.push([node.name, image, userData]);
  return { kind: "done" } as const;
};
const writing = aDriver("writer", {
  deploy: stepsOf(
    aStep("write", "deploy", noting),
    aStep("remove", "undeploy", async () => ({ kind: "done" })),
  ),
  clean: stepsOf(aStep("wipe", "clean", noting)),
});
const writer = Object.assign(writing, { usesAgent: true });
const folder = mkdtempSync(join(tmpdir(), "ostler-images-"));
/** The driver declares that it uses the agent; its steps never do. */
const PROVISIONING = { url: "http://127.0.0.1:9", mediaFor: () => ({ version: "1", protocol: 2 }) };
const ostler = await engineUnderTest({ drivers: [writer], imageFolder: folder, provisioning: PROVISIONING });
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const { engine } = ostler;
const { reader } = ostler.database;

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

let made = 0;
function anImage(more: Partial<NewImage> = {}): NewImage {
  const name = `image-${(made += 1)}`;
  return {
    name,
    url: `https://images.example/${name}.raw.zst`,
    format: "RAW_ZST",
    sizeBytes: 1_000,
    diskBytes: 4_000,
    checksum: { algorithm: "SHA256", value: sha256(name) },
    architecture: "X64",
    bootMode: "UEFI",
    ...more,
  };
}

async function registered(more: Partial<NewImage> = {}): Promise<ImageRow> {
  const image = anImage(more);
  expect(await engine.registerImages(ALICE, [image])).toMatchObject({ refusals: [] });
  return found(image.name);
}

async function found(name: string): Promise<ImageRow> {
  const [row] = await imagesByNames(reader, [name]);
  if (!row) throw new Error(`There is no image ${name}.`);
  return row;
}

/** A stored image whose file has this content. */
async function stored(content: string): Promise<ImageRow> {
  writeFileSync(join(folder, `sha256-${sha256(content)}`), content);
  const checksum = { algorithm: "SHA256", value: sha256(content) } as const;
  return registered({ url: undefined, format: "RAW", sizeBytes: content.length, diskBytes: undefined, checksum });
}

const paths = ({ refusals }: { readonly refusals: readonly { readonly path?: readonly string[] }[] }) =>
  refusals.map(({ path }) => path?.join("."));

const aWriterNode = () => ostler.aNode().with("writer").in("AVAILABLE").made();

async function inspected(node: TestNode, data: Parameters<typeof insertInventories>[1][number]["data"]): Promise<void> {
  await ostler.transact(({ tx }) =>
    insertInventories(tx, [{ id: randomUUID(), nodeId: node.id, runId: randomUUID(), driver: null, data }]),
  );
}

describe("registering images", () => {
  test("an image is stored with its properties, the checksum in lower case", async () => {
    const image = await registered({
      checksum: { algorithm: "SHA512", value: "AB".repeat(64) },
      labels: { os: "debian" },
    });
    expect(image).toMatchObject({
      url: `https://images.example/${image.name}.raw.zst`,
      format: "RAW_ZST",
      sizeBytes: 1_000,
      diskBytes: 4_000,
      checksumAlgorithm: "SHA512",
      checksum: "ab".repeat(64),
      architecture: "X64",
      bootMode: "UEFI",
      labels: { os: "debian" },
      callsHome: true,
      userDataBytes: null,
      revision: 1,
    });
  });

  test.each([
    "http://169.254.169.254/latest/meta-data",
    "http://[fe80::1]/a",
    "http:///a",
    "http:a",
    "http://0/a",
    "http://224.0.0.1/a",
    "http://100.100.100.200/a",
    "http://[::ffff:169.254.169.254]/a",
  ])("an image at %s, where no server is, is refused; one on loopback is not", async (url) => {
    const answer = await engine.registerImages(ALICE, [anImage({ url }), anImage({ url: "http://127.0.0.1:8080/a" })]);
    expect(paths(answer)).toEqual(["input.images.0.url"]);
    const image = await registered();
    expect(paths(await engine.updateImage(ALICE, { name: image.name }, { url }))).toEqual(["input.url"]);
  });

  test("a request with flaws registers nothing and names every flaw of every image [R-500]", async () => {
    const good = anImage();
    const taken = await registered();
    const answer = await engine.registerImages(ALICE, [
      good,
      anImage({ name: "no name", url: "ftp://images.example/a" }),
      anImage({ url: "https://user:secret@images.example/a", sizeBytes: 0, diskBytes: 0 }),
      anImage({ checksum: { algorithm: "SHA256", value: "abc" }, userData: "", labels: { "-": "x" } }),
      anImage({ name: taken.name, format: "RAW", userData: "x".repeat(65_537) }),
      anImage({ name: good.name, description: "two\nlines" }),
    ]);
    expect(answer.imageIds).toEqual([]);
    expect(paths(answer)).toEqual([
      "input.images.1.name",
      "input.images.1.url",
      "input.images.2.url",
      "input.images.2.sizeBytes",
      "input.images.2.diskBytes",
      "input.images.3.checksum.value",
      "input.images.3.labels",
      "input.images.3.userData",
      "input.images.4.diskBytes",
      "input.images.4.userData",
      "input.images.4.name",
      "input.images.5.description",
      "input.images.5.name",
    ]);
    for (const { code, message } of answer.refusals) {
      expect(code).toBe("INVALID_INPUT");
      expect(message).not.toContain("secret@");
    }
    expect(await imagesByNames(reader, [good.name])).toEqual([]);
  });

  test.each([
    ["no image", 0],
    ["more than 100 images", 101],
  ])("a request with %s is refused", async (_what, count) => {
    const answer = await engine.registerImages(
      ALICE,
      Array.from({ length: count }, () => anImage()),
    );
    expect(paths(answer)).toEqual(["input.images"]);
  });

  test("two requests for one name at the same moment: one registers it", async () => {
    const image = anImage();
    const answers = await Promise.all([1, 2, 3].map(() => engine.registerImages(ALICE, [image])));
    expect(answers.flatMap(({ imageIds }) => imageIds)).toHaveLength(1);
  });

  test("a stored image needs its file in the folder, with its size", async () => {
    const content = "missing";
    const image = anImage({
      url: undefined,
      format: "RAW",
      sizeBytes: content.length,
      diskBytes: undefined,
      checksum: { algorithm: "SHA256", value: sha256(content) },
    });
    expect((await engine.registerImages(ALICE, [image])).refusals[0]?.message).toContain("is not there");
    writeFileSync(join(folder, `sha256-${sha256(content)}`), "short");
    expect((await engine.registerImages(ALICE, [image])).refusals[0]?.message).toContain("has 5 bytes, not 7");
    const path = join(folder, `sha256-${sha256(content)}`);
    rmSync(path);
    writeFileSync(join(folder, "elsewhere"), content);
    symlinkSync(join(folder, "elsewhere"), path);
    expect((await engine.registerImages(ALICE, [image])).refusals[0]?.message).toContain("is not there");
    rmSync(path);
    writeFileSync(path, content);
    expect((await engine.registerImages(ALICE, [image])).refusals).toEqual([]);
  });
});

describe("changing an image", () => {
  const change = (image: ImageRow, more: Parameters<typeof engine.updateImage>[2]) =>
    engine.updateImage(ALICE, { name: image.name }, more);

  test("a change raises the revision, and one that changes nothing does not", async () => {
    const image = await registered({ description: "first" });
    expect(await change(image, { ifRevision: 1, description: null, bootMode: null })).toMatchObject({ refusals: [] });
    expect(await found(image.name)).toMatchObject({ description: null, bootMode: null, revision: 2 });
    await change(image, { bootMode: null });
    expect(await found(image.name)).toMatchObject({ revision: 2 });
    expect((await change(image, { ifRevision: 1, callsHome: false })).refusals[0]?.code).toBe("STALE_REVISION");
  });

  test("user data of the same length is a change, and null removes it", async () => {
    const image = await registered({ userData: "password: first-one" });
    await change(image, { userData: "password: other-one" });
    expect(await found(image.name)).toMatchObject({ userDataBytes: 19, revision: 2 });
    await change(image, { userData: null });
    expect(await found(image.name)).toMatchObject({ userDataBytes: null, revision: 3 });
  });

  test("a stored image gets no address, a RAW image no other size, and no image a taken name [R-501]", async () => {
    const image = await stored("a stored image that is changed");
    const other = await registered();
    expect(paths(await change(image, { url: "https://images.example/x" }))).toEqual(["input.url"]);
    expect(paths(await change(image, { diskBytes: 7 }))).toEqual(["input.diskBytes"]);
    expect(paths(await change(image, { name: other.name }))).toEqual(["input.name"]);
    expect(await found(image.name)).toEqual(image);
  });

  test("an unknown image is reported as missing", async () => {
    const { refusals } = await engine.updateImage(ALICE, { id: "no-id" }, {});
    expect(refusals).toMatchObject([{ code: "NOT_FOUND", missing: ["no-id"], path: ["input", "image"] }]);
  });
});

describe("deleting images", () => {
  test("all or none are deleted, and what is missing is named", async () => {
    const [one, two] = [await registered(), await registered()];
    const refused = await engine.deleteImages(ALICE, { images: [{ id: one.id }, { name: "nowhere" }] });
    expect(refused).toMatchObject({ imageIds: [], refusals: [{ code: "NOT_FOUND", missing: ["nowhere"] }] });
    const answer = await engine.deleteImages(ALICE, { images: [{ id: one.id }, { name: two.name }] });
    expect(answer.imageIds.toSorted()).toEqual([one.id, two.id].toSorted());
    expect(await imagesByNames(reader, [one.name, two.name])).toEqual([]);
  });

  test("an image in use is refused while the operation runs, and then unless forced [R-503]", async () => {
    const image = await registered();
    const gate = aGate();
    const node = await ostler
      .aNode()
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .in("AVAILABLE")
      .made();
    const operation = await ostler.begin("DEPLOY", [node], { image: { name: image.name } });
    await gate.arrivals();
    const remove = (force: boolean) => engine.deleteImages(ALICE, { images: [{ id: image.id }], force });
    expect(await remove(true)).toMatchObject({ refusals: [{ code: "IN_USE", operationId: operation }] });
    gate.open();
    await ostler.operationEnds(operation);
    const refused = await remove(false);
    expect(refused).toMatchObject({
      refusals: [{ code: "IN_USE", nodeId: node.id, nodes: { count: 1, refs: [node.name] } }],
    });
    expect(refused.refusals[0]?.message).toContain(node.name);
    expect(await remove(true)).toMatchObject({ imageIds: [image.id], refusals: [] });
  });

  test("the file of a stored image is deleted with the last image of its content [R-508]", async () => {
    const content = "the content of two images";
    const one = await stored(content);
    const two = await stored(content);
    const file = join(folder, `sha256-${sha256(content)}`);
    expect(await engine.storedImage(one.id)).toEqual({ path: file, sizeBytes: content.length });
    await engine.deleteImages(ALICE, { images: [{ id: one.id }] });
    expect(existsSync(file)).toBe(true);
    expect(await engine.storedImage(one.id)).toBeNull();
    await engine.deleteImages(ALICE, { images: [{ id: two.id }] });
    expect(existsSync(file)).toBe(false);
  });

  test("an image at an address is not served, nor one whose file has another size", async () => {
    const elsewhere = await registered();
    const cut = await stored("a file that is cut");
    writeFileSync(join(folder, `sha256-${cut.checksum}`), "cut");
    expect(await engine.storedImage(elsewhere.id)).toBeNull();
    expect(await engine.storedImage(cut.id)).toBeNull();
    expect(await engine.storedImage("../../etc/passwd")).toBeNull();
  });
});

describe("installing an image", () => {
  test("a node shows the image that it was installed with, and none after an undeployment [R-506]", async () => {
    const image = await registered();
    const node = await aWriterNode();
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node], { image: { id: image.id } }));
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", imageId: image.id });
    await ostler.operationEnds(await ostler.begin("UNDEPLOY", [node]));
    expect(await ostler.node(node)).toMatchObject({ state: "AVAILABLE", imageId: null });
  });

  test("a driver that writes images is refused without one, and the refusal names some [R-507]", async () => {
    const image = await registered({ name: `aaa-${randomUUID()}` });
    const node = await aWriterNode();
    const { operationId, refusals } = await ostler.submit("DEPLOY", [node]);
    expect(operationId).toBeNull();
    expect(refusals).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "image"], nodeId: node.id }]);
    expect(refusals[0]?.message).toContain(image.name);
    expect(refusals[0]?.message).toContain("image: {");
  });

  test("deploy steps receive the image and the user data, other steps do not", async () => {
    const image = await stored("an image that a step receives");
    const node = await aWriterNode();
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node], { image: { id: image.id }, userData: "#cloud" }));
    const view = {
      id: image.id,
      name: image.name,
      url: `/images/${image.id}`,
      format: "RAW",
      sizeBytes: image.sizeBytes,
      diskBytes: image.sizeBytes,
      checksum: { algorithm: "SHA256", value: image.checksum },
      architecture: "X64",
      bootMode: "UEFI",
      callsHome: true,
    };
    const work = { image: { id: image.id }, userData: "#again", options: { reinstall: true } };
    await ostler.operationEnds(await ostler.begin("REDEPLOY", [node], work));
    expect(received.filter((one) => Array.isArray(one) && one[0] === node.name)).toEqual([
      [node.name, view, "#cloud"],
      [node.name, null, null],
      [node.name, view, "#again"],
    ]);
  });

  test("other drivers deploy without an image", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node]));
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", imageId: null });
  });

  test("an unknown image is refused with the names of registered ones", async () => {
    await registered();
    const node = await aWriterNode();
    for (const image of [{ name: "nowhere" }, { id: randomUUID() }, { id: "no-id" }]) {
      const { refusals } = await ostler.submit("DEPLOY", [node], { image });
      expect(refusals).toMatchObject([{ code: "NOT_FOUND", path: ["input", "image"] }]);
      expect(refusals[0]?.message).toContain("Registered: ");
    }
  });

  test("an image is refused by every node whose inventory contradicts it, before anything starts [R-504]", async () => {
    const image = await registered({ diskBytes: 40_000 });
    const [fitting, arm, small] = [await aWriterNode(), await aWriterNode(), await aWriterNode()];
    await inspected(fitting, { processors: [{ architecture: "x86-64" }], disks: [{ sizeBytes: 40_000 }] });
    await inspected(arm, { processors: [{ architecture: "ARM-A64" }], bootMode: "BIOS" });
    await inspected(small, { disks: [{ sizeBytes: 39_999 }] });
    const { results, operationId } = await ostler.submit("DEPLOY", [fitting, arm, small], {
      image: { id: image.id },
      acceptance: "BEST_EFFORT",
    });
    expect(results.map(({ refusal, further = [] }) => [refusal, ...further].map((one) => one?.imageMismatch))).toEqual([
      [undefined],
      ["ARCHITECTURE", "BOOT_MODE"],
      ["SIZE"],
    ]);
    expect(results.map(({ refusal }) => refusal?.code)).toEqual([undefined, "IMAGE_UNFIT", "IMAGE_UNFIT"]);
    await ostler.operationEnds(operationId ?? "");
  });

  test("hints of a request choose the disk that has to hold the image", async () => {
    const image = await registered({ diskBytes: 4_000 });
    const node = await aWriterNode();
    await inspected(node, {
      disks: [
        { serial: "A", sizeBytes: 1_000 },
        { serial: "B", sizeBytes: 9_000 },
      ],
    });
    const ask = (serial: string) =>
      ostler.submit("DEPLOY", [node], {
        image: { id: image.id },
        variables: { root_disk: { serial } },
        dryRun: true,
      });
    expect((await ask("A")).refusals).toMatchObject([{ code: "IMAGE_UNFIT", imageMismatch: "SIZE" }]);
    expect((await ask("B")).refusals).toEqual([]);
  });

  test("the boot mode in the settings of a node counts before an inspection", async () => {
    const image = await registered({ bootMode: "UEFI" });
    const node = await ostler.aNode().with("writer", { bootMode: "BIOS" }).in("AVAILABLE").made();
    const { refusals } = await ostler.submit("DEPLOY", [node], { image: { id: image.id } });
    expect(refusals).toMatchObject([{ code: "IMAGE_UNFIT", imageMismatch: "BOOT_MODE" }]);
  });

  test("a commission that installs nothing takes no image and no user data", async () => {
    const image = await registered();
    const node = await ostler.aNode().in("AVAILABLE").made();
    const options = { until: "AVAILABLE" } as const;
    const answer = await ostler.submit("COMMISSION", [node], { options, image: { id: image.id }, userData: "x" });
    expect(paths(answer)).toEqual(["input.image", "input.userData"]);
  });
});

describe("the plan of an image", () => {
  test("the image and the user data are part of the plan hash [R-505]", async () => {
    const [one, two] = [await registered(), await registered()];
    const node = await aWriterNode();
    const planned = (more: object) => ostler.submit("DEPLOY", [node], { ...more, dryRun: true });
    const plan = await planned({ image: { id: one.id } });
    expect(plan.results[0]?.imageId).toBe(one.id);
    const hashes = [
      plan.planHash,
      (await planned({ image: { name: one.name } })).planHash,
      (await planned({ image: { id: two.id } })).planHash,
      (await planned({ image: { id: one.id }, userData: "a" })).planHash,
      (await planned({ image: { id: one.id }, userData: "b" })).planHash,
    ];
    expect(hashes[1]).toBe(hashes[0]);
    expect(new Set(hashes).size).toBe(4);
    const refused = await ostler.submit("DEPLOY", [node], { image: { id: two.id }, planHash: plan.planHash ?? "" });
    expect(refused.refusals).toMatchObject([{ code: "STALE_REVISION" }]);
  });

  test("a request with a key is repeated with the same user data only", async () => {
    const image = await registered();
    const node = await aWriterNode();
    const ask = (userData: string | undefined) =>
      ostler.submit("DEPLOY", [node], { image: { id: image.id }, userData, idempotencyKey: `key-${image.id}` });
    const first = await ask("password: hunter2hunter2");
    expect(first.refusals).toEqual([]);
    expect(await ask("password: hunter2hunter2")).toMatchObject({ operationId: first.operationId, replayed: true });
    for (const other of ["password: another-secret", undefined])
      expect((await ask(other)).refusals).toMatchObject([{ code: "IDEMPOTENCY_MISMATCH" }]);
  });
});

describe("user data", () => {
  const userDataIn = (operationId: string) => secretsIn(ostler.database, SECRETS.operationUserData, operationId);

  test("the default of the image applies, the request replaces it, and null drops it", async () => {
    const image = await registered({ userData: "#cloud-config of the image" });
    const kept = async (userData: string | null | undefined) => {
      const node = await ostler
        .aNode()
        .scripted({ "deploy.write_image": { fail: "no" } })
        .in("AVAILABLE")
        .made();
      const operation = await ostler.begin("DEPLOY", [node], { image: { id: image.id }, userData });
      await ostler.operationEnds(operation);
      return userDataIn(operation);
    };
    expect(await kept(undefined)).toBe("#cloud-config of the image");
    expect(await kept("#cloud-config of the request")).toBe("#cloud-config of the request");
    expect(await kept(null)).toBeUndefined();
  });

  test("it is deleted when the operation succeeds, and its size stays", async () => {
    const image = await registered();
    const node = await aWriterNode();
    const operation = await ostler.begin("DEPLOY", [node], { image: { id: image.id }, userData: "#cloud-config" });
    await ostler.operationEnds(operation);
    expect(await userDataIn(operation)).toBeUndefined();
    expect(await ostler.operation(operation)).toMatchObject({ userDataBytes: 13, imageId: image.id });
  });

  test("a restart keeps the image and the user data that the operation had [R-505]", async () => {
    const image = await registered({ userData: "#cloud-config first" });
    const node = await ostler
      .aNode()
      .scripted({ "deploy.write_image": { fail: "no" } })
      .in("AVAILABLE")
      .made();
    const operation = await ostler.begin("DEPLOY", [node], { image: { id: image.id } });
    await ostler.operationEnds(operation);
    await engine.updateImage(ALICE, { id: image.id }, { userData: "#cloud-config later" });
    const { operationId, refusals } = await engine.restart(ALICE, { work: { operationId: operation } });
    expect(refusals).toEqual([]);
    expect(await ostler.operation(operationId ?? "")).toMatchObject({ imageId: image.id });
    expect(await userDataIn(operationId ?? "")).toBe("#cloud-config first");
    await ostler.operationEnds(operationId ?? "");
  });

  test("a restart after the image was deleted is refused", async () => {
    const image = await registered();
    const node = await ostler
      .aNode()
      .scripted({ "deploy.write_image": { fail: "no" } })
      .in("AVAILABLE")
      .made();
    const operation = await ostler.begin("DEPLOY", [node], { image: { id: image.id } });
    await ostler.operationEnds(operation);
    await engine.deleteImages(ALICE, { images: [{ id: image.id }] });
    const { refusals } = await engine.restart(ALICE, { work: { operationId: operation } });
    expect(refusals).toMatchObject([{ code: "NOT_FOUND", missing: [image.id] }]);
  });
});
