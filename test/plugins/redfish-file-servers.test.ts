/** Firmware files through a running service: from which servers the driver `redfish` and its BMCs fetch them. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { startBmc } from "../../packages/bmc-simulator/src/index.ts";
import type { BmcSettings } from "../../packages/bmc-simulator/src/index.ts";
import { startService } from "../../src/app.ts";
import { readConfig } from "../../src/config/config.ts";
import { createLog } from "../../src/log.ts";
import { ask } from "../replicas/lab.ts";
import { TEST_KEYS } from "../support/keyring.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

/** The action SimpleUpdate is not offered, so that the driver fetches the file and sends it. */
const PUSH_ONLY = { omits: ["UpdateService.Actions"] };

interface FileServer extends AsyncDisposable {
  readonly host: string;
  /** Paths that were requested. */
  readonly requested: string[];
}

/** Answers with a firmware image of the NIC, or with a redirect. */
async function serve(location?: string): Promise<FileServer> {
  const requested: string[] = [];
  const image = `${JSON.stringify({ component: "NIC", version: "23.0" })}\nimage`;
  const server = createServer((request, response) => {
    requested.push(request.url ?? "");
    if (location === undefined) response.writeHead(200, { "content-length": image.length }).end(image);
    else response.writeHead(302, { location, "content-length": 0 }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    requested,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Refused {
  readonly code: string;
  readonly message: string;
  readonly path: readonly string[] | null;
}

/** A service with one node, MANAGEABLE, and its simulated BMC. */
async function lab(environment: Readonly<Record<string, string>> = {}, given: BmcSettings = {}) {
  await using parts = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "ostler-files-"));
  parts.defer(() => rmSync(folder, { recursive: true, force: true }));
  const timing = { powerOnMs: 20, powerOffMs: 20, shutdownMs: 30, bootMs: 20, taskMs: 50, restartMs: 200 };
  const bmc = await startBmc({ traits: PUSH_ONLY, ...given, timing });
  parts.defer(() => bmc.close());
  const database = parts.use(await testDatabase());
  const service = parts.use(
    await startService(
      readConfig(
        {
          DATABASE_URL: database.url,
          OSTLER_SECRET_KEYS: TEST_KEYS,
          OSTLER_DATA: folder,
          OSTLER_PORT: "0",
          OSTLER_PLUGINS: "redfish",
          OSTLER_BMC_NETWORKS: "127.0.0.0/8",
          ...environment,
        },
        [],
      ),
      createLog("silent"),
    ),
  );
  const { hostname, port } = new URL(bmc.url);
  const query = <Data>(text: string, variables: Readonly<Record<string, unknown>> = {}) =>
    ask<Data>(service.url, text, variables);
  const { userName: username, password } = bmc.credentials;
  const settings = { address: hostname, port: Number(port), scheme: "HTTP", username, password };
  expect(
    await query(
      "mutation($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
      { nodes: [{ name: "n1", driver: { redfish: settings } }] },
    ),
  ).toEqual({ registerNodes: { errors: [] } });
  const node = () =>
    query<{ node: { state: string; lastError: { message: string } | null } }>(
      `{ node(by: { name: "n1" }) { state lastError { message } } }`,
    );
  await query(`mutation { manageNodes(input: { nodes: { names: ["n1"] } }) { errors { message } } }`);
  await eventually("the node is manageable", async () => (await node()).node.state === "MANAGEABLE", 20_000);
  let images = 0;
  const all = parts.move();
  const steps = (url: string) => [{ name: "update_firmware", args: { components: [{ id: "NIC", url }] } }];
  const FIELDS = "errors { code message path }";
  return {
    query,
    /** Registers an image at an address. */
    async register(url: string) {
      images += 1;
      const image = {
        name: `image-${images}`,
        url,
        format: "RAW",
        sizeBytes: 1,
        architecture: "X64",
        bootMode: "UEFI",
      };
      const checksum = { algorithm: "SHA256", value: "0".repeat(64) };
      expect(
        await query(
          "mutation($images: [RegisterImageInput!]!) { registerImages(input: { images: $images }) { errors { message } } }",
          { images: [{ ...image, checksum }] },
        ),
      ).toEqual({ registerImages: { errors: [] } });
    },
    /** The version of the NIC that the BMC reports as installed. */
    installed: () => bmc.state.versions.NIC ?? null,
    async plan(url: string): Promise<readonly Refused[]> {
      const answer = await query<{ plan: { errors: Refused[] } }>(
        `query($steps: [StepInput!]) { plan(input: { cleanNodes: { nodes: { names: ["n1"] }, steps: $steps } }) { ${FIELDS} } }`,
        { steps: steps(url) },
      );
      return answer.plan.errors;
    },
    /** The refusals of an update, or how its run ended. */
    async update(
      url: string,
    ): Promise<{ readonly refused: readonly Refused[] } | { readonly state: string; readonly why: string }> {
      const { cleanNodes } = await query<{
        cleanNodes: { errors: Refused[]; operation: { uuid: string } | null };
      }>(
        `mutation($steps: [StepInput!]) { cleanNodes(input: { nodes: { names: ["n1"] }, steps: $steps }) { operation { uuid } ${FIELDS} } }`,
        { steps: steps(url) },
      );
      if (!cleanNodes.operation) return { refused: cleanNodes.errors };
      const { uuid } = cleanNodes.operation;
      return eventually(
        "the operation ends",
        async () => {
          const { operation } = await query<{ operation: { state: string; finishedAt: string | null } }>(
            `query($uuid: ID!) { operation(id: $uuid) { state finishedAt } }`,
            { uuid },
          );
          return (
            operation.finishedAt !== null && {
              state: operation.state,
              why: (await node()).node.lastError?.message ?? "",
            }
          );
        },
        60_000,
      );
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

const CLOSED = await lab();
afterAll(() => CLOSED[Symbol.asyncDispose]());

test.each([
  ["loopback", "http://%/latest/meta-data", "^Step clean\\.update_firmware on node n1: .*File server % has a loopback"],
  ["the metadata of clouds", "http://169.254.169.254/latest/meta-data", "File server 169\\.254\\.169\\.254:80 has a"],
  ["metadata that is not link-local", "http://100.100.100.200/latest", "File server 100\\.100\\.100\\.200:80 has a"],
  ["loopback in an unusual spelling", "http://0x7f.1/x", "File server 127\\.0\\.0\\.1:80 has a"],
  ["loopback in IPv6", "http://[::ffff:127.0.0.1]/x", "File server \\[::ffff:7f00:1\\]:80 has a"],
  ["localhost", "https://LOCALHOST./x", "File server localhost:443 \\(127\\.0\\.0\\.1\\) has a"],
  [
    "a server that is not listed",
    "https://files.example/x",
    "files\\.example:443 is not on the list of file servers\\. Add",
  ],
  ["a login in the URL", "http://root:canary-login@files.example/x", "has a user or a password"],
])(
  "firmware at %s is refused when it is requested and in a plan, and neither fetched nor sent to the BMC [R-760]",
  async (_what, url, says) => {
    await using canary = await serve();
    const at = url.replace("%", canary.host);
    const expected = {
      code: "INVALID_INPUT",
      message: expect.stringMatching(new RegExp(says.replace("%", canary.host))),
      path: ["input", "steps", "0", "args", "components", "0", "url"],
    };
    expect(await CLOSED.plan(at)).toEqual([expected]);
    const answer = await CLOSED.update(at);
    expect(answer).toEqual({ refused: [expected] });
    expect(JSON.stringify(answer)).not.toContain("canary-login");
    expect([canary.requested, CLOSED.installed()]).toEqual([[], null]);
  },
);

test("firmware on the server of a registered image is accepted, and one on its other ports is not [R-760]", async () => {
  await CLOSED.register("http://Images.example:8080/debian.raw");
  expect(await CLOSED.plan("http://images.example.:8080/fw/nic.bin")).toEqual([]);
  expect(await CLOSED.plan("http://images.example/fw/nic.bin")).toMatchObject([{ code: "INVALID_INPUT" }]);
});

test("an image that is registered on loopback does not open loopback for firmware [R-760]", async () => {
  await using canary = await serve();
  await CLOSED.register(`http://${canary.host}/debian.raw`);
  expect(await CLOSED.update(`http://${canary.host}/nic.bin`)).toMatchObject({ refused: [{ code: "INVALID_INPUT" }] });
  expect(canary.requested).toEqual([]);
});

test.each([
  ["sent to the BMC by the driver", PUSH_ONLY],
  ["fetched by the BMC", "reference"],
] as const)("firmware on a listed server is %s, on loopback too [R-760]", async (_what, traits) => {
  await using files = await serve();
  await using ostler = await lab({ OSTLER_FILE_SERVERS: files.host }, { traits });
  expect(await ostler.update(`http://${files.host}/nic.bin`)).toEqual({ state: "SUCCEEDED", why: "" });
  expect([files.requested, ostler.installed()]).toEqual([["/nic.bin"], "23.0"]);
});

test("a redirect of a listed server to a server that is not listed is not followed [R-760]", async () => {
  await using canary = await serve();
  await using files = await serve(`http://${canary.host}/latest/meta-data`);
  await using ostler = await lab({ OSTLER_FILE_SERVERS: files.host });
  expect(await ostler.update(`http://${files.host}/nic.bin`)).toEqual({
    state: "FAILED",
    why: expect.stringContaining("status 302 (redirects are not followed)"),
  });
  expect([files.requested, canary.requested, ostler.installed()]).toEqual([["/nic.bin"], [], null]);
});
