/** Images through the API. */
import { createHash, randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { insertInventories, nodesByNames } from "../../src/store/nodes/nodes.ts";
import { aGate } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { serviceUnderTest } from "../support/service.ts";

/** Repeats its user data in every text. */
const repeater = aDriver("repeater", {
  clean: stepsOf(aStep("wipe", "clean", async () => ({ kind: "done" }))),
  deploy: stepsOf(
    aStep("write", "deploy", async (call) => {
      call.log(`user data: ${call.userData}`);
      call.progress(50, `with ${call.userData}`);
      return { kind: "failed", reason: `cannot use ${call.userData}`, retryable: false };
    }),
  ),
});
const ostler = await serviceUnderTest({ drivers: [repeater] });
afterAll(() => ostler[Symbol.asyncDispose]());

const SECRET = "Plugh-xyzzy-4711-cloud";
const ERRORS =
  "errors { type: __typename code status message path ... on NotFoundError { missing } ... on ConflictError { operation { uuid } node { name } } }";
const SHOWN =
  "id uuid name description url stored format sizeBytes diskBytes checksum { algorithm value } architecture bootMode labels { key value } callsHome userDataBytes revision createdAt updatedAt";

interface Image {
  readonly id: string;
  readonly name: string;
  readonly revision: number;
  readonly [field: string]: unknown;
}

interface Payload {
  readonly images: readonly Image[];
  readonly image: Image | null;
  readonly count: number;
  readonly errors: readonly { readonly code: string; readonly path: readonly string[] | null }[];
}

async function change(verb: "registerImages" | "updateImage" | "deleteImages", input: object): Promise<Payload> {
  const type = `${verb[0]?.toUpperCase()}${verb.slice(1)}Input`;
  const shown = {
    registerImages: `images { ${SHOWN} }`,
    updateImage: `image { ${SHOWN} }`,
    deleteImages: "count",
  }[verb];
  const data = await ostler.query<Record<string, Payload>>(
    `mutation Change($input: ${type}!) { ${verb}(input: $input) { ${shown} ${ERRORS} query { images { totalCount } } } }`,
    { input },
  );
  return data[verb] as Payload;
}

let made = 0;
function anImage(more: object = {}) {
  const name = `image-${String((made += 1)).padStart(3, "0")}`;
  return {
    name,
    url: `https://images.example/${name}.raw.zst`,
    format: "RAW_ZST",
    sizeBytes: 5_000_000_000,
    diskBytes: 20_000_000_000,
    checksum: { value: createHash("sha256").update(name).digest("hex") },
    architecture: "X64",
    ...more,
  };
}

async function registered(more: object = {}): Promise<Image> {
  const { images, errors } = await change("registerImages", { images: [anImage(more)] });
  expect(errors).toEqual([]);
  return images[0] as Image;
}

describe("an image", () => {
  test("an image is registered, returned, found, changed and deleted", async () => {
    const given = anImage({ labels: [{ key: "os", value: "debian" }], description: "For workers.", userData: SECRET });
    const { images, errors } = await change("registerImages", { images: [given] });
    const { userData: _, ...shown } = given as typeof given & { userData: string };
    expect({ images, errors }).toEqual({
      images: [
        {
          ...shown,
          id: expect.any(String),
          uuid: expect.any(String),
          stored: false,
          checksum: { algorithm: "SHA256", value: given.checksum.value },
          bootMode: null,
          callsHome: true,
          userDataBytes: SECRET.length,
          revision: 1,
          createdAt: expect.any(String),
          updatedAt: expect.any(String),
        },
      ],
      errors: [],
    });
    const [image] = images;
    const found = await ostler.query(
      `query Find($id: ID!, $name: String!) {
        byId: image(by: { id: $id }) { name } byName: image(by: { name: $name }) { id }
        fetch__Image(id: $id) { name } none: image(by: { name: "none" }) { name }
      }`,
      { id: image?.id, name: given.name },
    );
    const { name } = given;
    expect(found).toEqual({
      byId: { name },
      byName: { id: image?.id },
      fetch__Image: { name },
      none: null,
    });
    const changed = await change("updateImage", {
      image: { id: image?.id },
      ifRevision: 1,
      name: `${name}-b`,
      userData: null,
      diskBytes: null,
      callsHome: false,
    });
    expect(changed.image).toMatchObject({
      name: `${name}-b`,
      revision: 2,
      userDataBytes: null,
      diskBytes: null,
      callsHome: false,
    });
    expect(await change("deleteImages", { images: [{ name: `${name}-b` }] })).toMatchObject({
      count: 1,
      errors: [],
    });
  });

  test("images are listed by name, in pages, with a filter and the total", async () => {
    await Promise.all([
      registered({ name: "list-a", architecture: "ARM64", labels: [{ key: "os", value: "debian" }] }),
      registered({ name: "list-b", bootMode: "UEFI", labels: [{ key: "os", value: "debian" }] }),
      registered({
        name: "list-c",
        format: "RAW_XZ",
        labels: [{ key: "os", value: "fedora" }],
        checksum: { value: createHash("sha256").update("list-c").digest("hex") },
      }),
    ]);
    const names = async (filter: object, page: object = {}) => {
      const { images } = await ostler.query<{
        images: {
          nodes: { name: string }[];
          totalCount: number;
          pageInfo: { endCursor: string; hasNextPage: boolean };
        };
      }>(
        "query List($filter: ImageFilter, $first: Int, $after: String) { images(filter: $filter, first: $first, after: $after) { nodes { name } totalCount pageInfo { endCursor hasNextPage } } }",
        { filter: { nameStartsWith: "list-", ...filter }, ...page },
      );
      return { ...images, names: images.nodes.map(({ name }) => name) };
    };
    expect(await names({})).toMatchObject({ names: ["list-a", "list-b", "list-c"], totalCount: 3 });
    const first = await names({}, { first: 2 });
    expect(first).toMatchObject({ names: ["list-a", "list-b"], totalCount: 3, pageInfo: { hasNextPage: true } });
    expect(await names({}, { first: 2, after: first.pageInfo.endCursor })).toMatchObject({ names: ["list-c"] });
    for (const [filter, expected] of [
      [{ architectures: ["ARM64"] }, ["list-a"]],
      [{ architectures: [] }, []],
      [{ bootModes: ["UEFI"] }, ["list-a", "list-b", "list-c"]],
      [{ bootModes: ["BIOS"] }, ["list-a", "list-c"]],
      [{ bootModes: [] }, []],
      [{ formats: ["RAW_XZ", "RAW"] }, ["list-c"]],
      [{ labels: [{ key: "os", value: "debian" }] }, ["list-a", "list-b"]],
      [{ stored: true }, []],
      [{ checksum: createHash("sha256").update("list-c").digest("hex").toUpperCase() }, ["list-c"]],
    ] as const)
      expect((await names(filter)).names, JSON.stringify(filter)).toEqual(expected);
  });

  test("a flaw is returned with its path, and a wrong size by GraphQL", async () => {
    const { errors } = await change("registerImages", { images: [anImage({ url: "file:///etc/passwd" })] });
    expect(errors).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "images", "0", "url"], status: 400 }]);
    const answer = await ostler.ask(
      "mutation Register($input: RegisterImagesInput!) { registerImages(input: $input) { images { id } } }",
      { input: { images: [anImage({ sizeBytes: 1.5 })] } },
    );
    expect(answer.errors[0]?.message).toContain("1.5 is not a number of bytes");
  });
});

describe("an image of an operation", () => {
  test("the plan, the operation, the run and the node show it, and an image in use is not deleted", async () => {
    const image = await registered();
    const gate = aGate();
    const names = await ostler.register(1, { steps: { "deploy.boot_system": { gate: gate.name } } });
    await ostler.commission(names, "AVAILABLE");
    const [name = ""] = names;
    const { plan } = await ostler.query(
      "query Plan($input: PlanInput!) { plan(input: $input) { planHash errors { message } results { image { id name checksum { value } } } } }",
      { input: { deployNodes: { nodes: { names }, image: { name: image.name } } } },
    );
    expect(plan).toMatchObject({
      errors: [],
      results: [
        { image: { id: image.id, name: image.name, checksum: image["checksum"] && { value: expect.any(String) } } },
      ],
    });
    const { planHash } = plan as { planHash: string };
    const operation = await ostler.begin("deployNodes", names, { image: { id: image.id }, planHash });
    await gate.arrivals();
    const { errors } = await change("deleteImages", { images: [{ id: image.id }], force: true });
    expect(errors).toMatchObject([
      { code: "IN_USE", status: 409, type: "ConflictError", operation: { uuid: operation } },
    ]);
    gate.open();
    await ostler.operationEnds(operation);
    const shown = await ostler.query(
      "query Shown($id: ID!, $name: String!) { operation(id: $id) { image { name } userDataBytes runs { nodes { image { name } } } } node(by: { name: $name }) { image { name } } nodes(filter: { name: { eq: $name } }) { nodes { image { name } } } }",
      { id: operation, name },
    );
    const its = { image: { name: image.name } };
    expect(shown).toEqual({
      operation: { ...its, userDataBytes: null, runs: { nodes: [its] } },
      node: its,
      nodes: { nodes: [its] },
    });
    expect((await change("deleteImages", { images: [{ id: image.id }] })).errors).toMatchObject([
      { code: "IN_USE", node: { name } },
    ]);
  });

  test("an image that does not fit is a refusal with the property", async () => {
    const image = await registered({ bootMode: "UEFI" });
    const names = await ostler.register(1);
    await ostler.commission(names, "AVAILABLE");
    const [name = ""] = names;
    const [node] = await nodesByNames(ostler.database.reader, names);
    const row = {
      id: randomUUID(),
      nodeId: node?.id ?? "",
      runId: randomUUID(),
      driver: null,
      data: { bootMode: "BIOS" },
    };
    await ostler.transact(({ tx }) => insertInventories(tx, [row]));
    const { plan } = await ostler.query(
      "query Plan($input: PlanInput!) { plan(input: $input) { results { image { name } error { code status path ... on ImageUnfitError { mismatch node { name } } } } } }",
      { input: { deployNodes: { nodes: { names }, image: { name: image.name } } } },
    );
    const error = { code: "IMAGE_UNFIT", status: 409, path: ["input", "image"], mismatch: "BOOT_MODE", node: { name } };
    expect(plan).toEqual({ results: [{ image: null, error }] });
  });

  test("a plan of a commission that installs nothing takes no image", async () => {
    const names = await ostler.register(1);
    const { plan } = await ostler.query(
      "query Plan($input: PlanInput!) { plan(input: $input) { results { ref } errors { code path } } }",
      { input: { commissionNodes: { nodes: { names }, until: "AVAILABLE", image: { name: "any" } } } },
    );
    expect(plan).toEqual({ results: [], errors: [{ code: "INVALID_INPUT", path: ["input", "image"] }] });
  });

  test("user data is in no answer, no log line and no table in clear [R-502]", async () => {
    const userData = `#cloud-config\npassword: ${SECRET}\n`;
    const image = await registered({ userData: `${userData}# of the image` });
    const gate = aGate();
    const names = await ostler.register(2, { steps: { "deploy.write_image": { gate: gate.name } } });
    await ostler.commission([names[0] ?? ""], "AVAILABLE");
    await ostler.commission([names[1] ?? ""], "AVAILABLE");
    const input = { image: { id: image.id }, idempotencyKey: `user-data-${image.id}` };
    const operations = [
      await ostler.begin("deployNodes", names.slice(0, 1), { ...input, userData }),
      await ostler.begin("deployNodes", names.slice(1), { image: { id: image.id } }),
    ];
    await gate.arrivals(2);
    const rows = await ostler.test.sql`select operation_id from operation_secrets`;
    expect(rows).toHaveLength(2);
    expect(await ostler.dump()).not.toContain(SECRET);
    gate.open();
    for (const operation of operations) await ostler.operationEnds(operation);
    expect(await ostler.test.sql`select operation_id from operation_secrets`).toEqual([]);
    const answer = await ostler.ask(
      "query Shown($id: ID!) { operation(id: $id) { userDataBytes variables image { userDataBytes } runs { nodes { variables steps { args } } } transitions { nodes { reason } } } }",
      { id: operations[0] },
    );
    expect(answer.text).toContain(`"userDataBytes":${userData.length}`);
    expect(answer.text).not.toContain(SECRET);
    const refused = await ostler.ask(
      "mutation Deploy($input: DeployNodesInput!) { deployNodes(input: $input) { errors { code message } } }",
      { input: { nodes: { names: names.slice(0, 1) }, ...input, userData: `${userData} other` } },
    );
    expect(refused.text).toContain("IDEMPOTENCY_MISMATCH");
    expect(refused.text).not.toContain(SECRET);
    expect(ostler.logLines.filter((line) => line.includes(SECRET))).toEqual([]);
  });

  test("user data that a driver repeats is masked in its log, its progress and its failure [R-502]", async () => {
    const image = await registered();
    const { errors } = (
      await ostler.query<{ registerNodes: { errors: unknown[] } }>(
        'mutation { registerNodes(input: { nodes: [{ name: "repeater-1", driver: { repeater: {} } }] }) { errors { message } } }',
      )
    ).registerNodes;
    expect(errors).toEqual([]);
    for (const verb of ["manageNodes", "provideNodes"])
      expect(await ostler.operationEnds(await ostler.begin(verb, ["repeater-1"]))).toBe("SUCCEEDED");
    const operation = await ostler.begin("deployNodes", ["repeater-1"], {
      image: { id: image.id },
      userData: `#cloud-config\npassword: ${SECRET}\n`,
    });
    expect(await ostler.operationEnds(operation)).toBe("FAILED");
    const answer = await ostler.ask(
      "query Shown($id: ID!) { operation(id: $id) { firstFailure { message } runs { nodes { steps { progressMessage log { text } } } } } }",
      { id: operation },
    );
    expect(answer.text).toContain("user data: ***");
    expect(answer.text).toContain("cannot use ***");
    expect(answer.text).not.toContain(SECRET);
    expect(ostler.logLines.filter((line) => line.includes(SECRET))).toEqual([]);
    expect(await ostler.dump(["image_secrets", "operation_secrets"])).not.toContain(SECRET);
  });
});
