/** The requests of agents and installed systems: what is accepted, what is refused, what a stranger learns. */
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import type { AgentReport, Agents } from "../../src/engine/agents/agents.ts";
import type { AgentResult } from "../../src/drivers/driver.ts";
import type { StoredJson } from "../../src/store/records.ts";
import { eventually } from "../support/eventually.ts";
import { BEARER, REPORT, SECRET, SESSION, startLab } from "./lab.ts";

const RESULT = { instance: REPORT.instance, task: "t1", ok: true, output: { disks: 2 } };

const labs = new AsyncDisposableStack();
afterAll(() => labs[Symbol.asyncDispose]());

async function lab(...given: Parameters<typeof startLab>) {
  return labs.use(await startLab(...given));
}

function post(url: string, path: string, body: unknown, headers: Readonly<Record<string, string>> = BEARER) {
  return fetch(`${url}${path}`, {
    method: "POST",
    headers,
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

describe("a poll of an agent", () => {
  test("a poll passes the report and the secret on, and returns the order", async () => {
    const seen: unknown[] = [];
    const { url } = await lab({
      poll: async (bearer, report) => {
        seen.push(bearer, report);
        return { do: "task", task: { id: "t1", kind: "inventory", args: {} } };
      },
    });
    const task = { id: "t0", percent: 140, message: "half\0way" };
    const response = await post(url, "/agent/v1/poll", { ...REPORT, task });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ do: "task", task: { id: "t1", kind: "inventory", args: {} } });
    expect(seen).toEqual([
      { session: SESSION, secret: SECRET },
      { ...REPORT, task: { id: "t0", percent: 100, message: "half\uFFFDway" } },
    ]);
  });

  test("an address that is none is replaced by the one that the request came from", async () => {
    const reports: AgentReport[] = [];
    const { url } = await lab({
      poll: async (_, report) => {
        reports.push(report);
        return { do: "wait", seconds: 1 };
      },
    });
    await post(url, "/agent/v1/poll", { ...REPORT, address: "nonsense", macs: ["52-54-00-AA-00-01", "x"] });
    expect(reports).toMatchObject([{ address: "127.0.0.1", macs: ["52:54:00:aa:00:01"] }]);
  });

  test.each([
    [{ ...REPORT, instance: "short" }, "instance"],
    [{ ...REPORT, protocol: 1 }, "protocol 2"],
    [{ ...REPORT, architecture: "MIPS" }, "architecture"],
    [{ ...REPORT, bootMode: "" }, "bootMode"],
    [{ ...REPORT, macs: "52:54:00:77:00:01" }, "macs"],
    [{ ...REPORT, task: { percent: 1 } }, "task"],
    [[], "object"],
    ["{", "JSON"],
  ])("the malformed report %j is refused and does not reach the engine", async (report, why) => {
    let polls = 0;
    const { url } = await lab({
      poll: async () => {
        polls += 1;
        return "UNKNOWN";
      },
    });
    const response = await post(url, "/agent/v1/poll", report);
    expect(response.status).toBe(400);
    expect(await response.text()).toContain(why);
    expect(polls).toBe(0);
  });
});

describe("a result of an agent", () => {
  test.each([
    ["TAKEN", 202],
    ["RETRY", 503],
    ["NOT_CURRENT", 409],
    ["STRANGER", 409],
    ["UNKNOWN", 401],
  ] as const)("a result that is %s gets status %i", async (answer, status) => {
    const { url } = await lab({ result: async () => answer });
    expect((await post(url, "/agent/v1/result", RESULT)).status).toBe(status);
  });

  test("texts that cannot be stored are replaced, so that the agent does not repeat its result forever", async () => {
    const results: AgentResult[] = [];
    const { url } = await lab({
      result: async (_, __, result) => {
        results.push(result);
        return "TAKEN";
      },
    });
    await post(url, "/agent/v1/result", { ...RESULT, output: { "serial\0": ["A\0\0", "\uD800", 1, null, true] } });
    const error = { code: "DISK_NOT_FOUND", message: "no\0disk", retryable: true };
    await post(url, "/agent/v1/result", { instance: RESULT.instance, task: "t1", ok: false, error });
    expect(results).toEqual([
      { task: "t1", ok: true, output: { "serial\uFFFD": ["A\uFFFD\uFFFD", "\uFFFD", 1, null, true] } },
      { task: "t1", ok: false, error: { code: "DISK_NOT_FOUND", message: "no\uFFFDdisk", retryable: true } },
    ]);
  });

  test("a failure may state that the agent has already tried again; any other value than true is ignored", async () => {
    const errors: unknown[] = [];
    const { url } = await lab({
      result: async (_, __, result) => {
        errors.push(!result.ok && result.error);
        return "TAKEN";
      },
    });
    const error = { code: "IMAGE_STALLED", message: "no byte", retryable: true };
    for (const retried of [true, false, "true", null])
      await post(url, "/agent/v1/result", { ...RESULT, ok: false, error: { ...error, retried } });
    expect(errors).toEqual([{ ...error, retried: true }, error, error, error]);
  });

  test("a result of more than 1 MiB is refused; one below it is taken [R-475]", async () => {
    const { url } = await lab({ result: async () => "TAKEN" });
    const sized = (bytes: number) => ({ ...RESULT, output: "x".repeat(bytes) });
    expect((await post(url, "/agent/v1/result", sized(1024 * 1024))).status).toBe(413);
    expect((await post(url, "/agent/v1/result", sized(1_000_000))).status).toBe(202);
  });

  test("a failure of the database asks the agent to try again", async () => {
    const { url } = await lab({ result: () => Promise.reject(new Error("the connection was lost")) });
    const response = await post(url, "/agent/v1/result", RESULT);
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toBe("5");
  });
});

describe("the report of an installed system", () => {
  test("a report is taken as a form or as JSON [R-477]", async () => {
    const bodies: StoredJson[] = [];
    const { url } = await lab({
      callHome: async (token, body) => {
        bodies.push(token, body);
        return true;
      },
    });
    const form = { "content-type": "application/x-www-form-urlencoded" };
    expect((await post(url, `/home/${SECRET}`, "hostname=n1&pub_key_ed25519=ssh+x", form)).status).toBe(200);
    expect((await post(url, `/home/${SECRET}`, { up: 7 }, {})).status).toBe(200);
    expect((await post(url, `/home/${SECRET}`, "", {})).status).toBe(200);
    expect((await post(url, `/home/${SECRET}`, "plain", {})).status).toBe(200);
    const reports = [{ hostname: "n1", pub_key_ed25519: "ssh x" }, { up: 7 }, {}, { text: "plain" }];
    expect(bodies).toEqual(reports.flatMap((report) => [SECRET, report]));
  });

  test("a number in a report that would be stored as another one becomes a text, because the machine sends it once [R-840]", async () => {
    const bodies: StoredJson[] = [];
    const { url } = await lab({ callHome: async (_token, body) => bodies.push(body) > 0 });
    const report = '{"disks":[{"bytes":12345678901234567890},{"bytes":-1e400},4096]}';
    expect((await post(url, `/home/${SECRET}`, report, {})).status).toBe(200);
    expect(bodies).toEqual([{ disks: [{ bytes: "12345678901234567890" }, { bytes: "-1e400" }, 4096] }]);
  });

  test("a report of more than 64 KiB is refused [R-475]", async () => {
    const { url } = await lab({ callHome: async () => true });
    expect((await post(url, `/home/${SECRET}`, "x".repeat(65_537), {})).status).toBe(413);
  });
});

describe("what a stranger learns", () => {
  test("unknown sessions, wrong secrets and malformed ones get the same answer [R-471]", async () => {
    const { url } = await lab({});
    const answers = await Promise.all(
      [
        `Bearer ${SESSION}.${"x".repeat(43)}`,
        `Bearer ${crypto.randomUUID()}.${SECRET}`,
        "Bearer x",
        "Basic eDp5",
        "",
      ].map(async (authorization) => {
        const response = await post(url, "/agent/v1/poll", REPORT, authorization === "" ? {} : { authorization });
        return `${response.status} ${await response.text()}`;
      }),
    );
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toMatch(/^401 /);
  });

  test("unknown paths, tokens, media and images get the same answer, and none of the API is served [R-470, R-471]", async () => {
    const { url } = await lab({});
    const get = [
      "/",
      "/graphql",
      "/metrics",
      "/livez",
      "/schema.graphql",
      "/agent/v1/poll",
      "/boot/agent/x64/agent.iso",
    ];
    const secret = [`/media/${SESSION}.${SECRET}/agent.iso`, `/media/x/agent.iso`, "/media/a/b/agent.iso"];
    const answers = new Set<string>();
    for (const path of [...get, ...secret, "/boot/agent/x64/../../etc/passwd", "/boot/agent/x64/vmlinuz"]) {
      const response = await fetch(`${url}${path}`);
      answers.add(`${response.status} ${await response.text()}`);
    }
    for (const path of [`/home/${SECRET}`, "/home/x", "/graphql", "/callback/x", "/boot/ipxe"]) {
      const response = await post(url, path, {});
      answers.add(`${response.status} ${await response.text()}`);
    }
    expect([...answers]).toEqual([`404 {"error":"There is nothing at this address."}`]);
  });

  test("the report of a lease gets the same answer for every machine, and a MAC is passed on", async () => {
    const macs: string[] = [];
    const { url } = await lab({
      leased: async (mac) => {
        macs.push(mac);
      },
    });
    expect((await post(url, "/boot/dhcp?mac=52:54:00:AA:00:01", "", {})).status).toBe(204);
    expect((await post(url, "/boot/dhcp?mac=06-52-54", "", {})).status).toBe(400);
    expect(macs).toEqual(["52:54:00:aa:00:01"]);
  });

  test("no secret is logged, also if a request fails [R-472]", async () => {
    const agents: Partial<Agents> = {
      poll: () => Promise.reject(new Error("the connection was lost")),
      medium: () => Promise.reject(new Error("the connection was lost")),
      callHome: () => Promise.reject(new Error("the connection was lost")),
    };
    const { url, logged } = await lab(agents);
    await post(url, "/agent/v1/poll", REPORT);
    await post(url, `/home/${SECRET}`, {});
    await fetch(`${url}/media/${SESSION}.${SECRET}/agent.iso`);
    expect(logged()).toContain("the connection was lost");
    expect(logged()).not.toContain(SECRET);
  });
});

describe("a flood of requests", () => {
  test("an address with many wrong secrets has to wait; accepted requests do not count [R-475]", async () => {
    let order: Awaited<ReturnType<Agents["poll"]>> = { do: "wait", seconds: 1 };
    const { url } = await lab({ poll: async () => order }, { limits: { rejectedBurst: 3, rejectedPerSecond: 0 } });
    for (let count = 0; count < 10; count += 1) expect((await post(url, "/agent/v1/poll", REPORT)).status).toBe(200);
    order = "UNKNOWN";
    const statuses: number[] = [];
    for (let count = 0; count < 6; count += 1) statuses.push((await post(url, "/agent/v1/poll", REPORT)).status);
    expect(statuses).toEqual([401, 401, 401, 401, 429, 429]);
  });

  test("few large bodies are read at the same time; further ones get 503 [R-475]", async () => {
    const { url } = await lab({ result: async () => "TAKEN" }, { limits: { downloadsMax: 1 } });
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    const head = ["POST /agent/v1/result HTTP/1.1", "host: x", `authorization: ${BEARER.authorization}`];
    socket.write([...head, "content-length: 100", "expect: 100-continue", "", ""].join("\r\n"));
    // The listener has read the head.
    await once(socket, "data");
    expect((await post(url, "/agent/v1/result", RESULT)).status).toBe(503);
    const closed = once(socket, "close");
    socket.destroy();
    await closed;
    await eventually("the next one is read", async () => (await post(url, "/agent/v1/result", RESULT)).status === 202);
  });

  test("boot scripts and leases of one address are limited [R-475]", async () => {
    const { url } = await lab({}, { limits: { openBurst: 2, openPerSecond: 0 } });
    const ask = async () => (await fetch(`${url}/boot/ipxe?mac=52:54:00:77:00:01`)).status;
    expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, 200, 200, 429]);
  });

  test("few requests use the database at the same time; more wait, and beyond that get 503 [R-475]", async () => {
    const gate = Promise.withResolvers<"UNKNOWN">();
    let entered = 0;
    const { url } = await lab(
      {
        poll: () => {
          entered += 1;
          return gate.promise;
        },
      },
      { limits: { atOnceMax: 2, waitingMax: 3 } },
    );
    const statuses: number[] = [];
    const polls = Array.from({ length: 7 }, async () => {
      statuses.push((await post(url, "/agent/v1/poll", REPORT)).status);
    });
    await eventually("two are refused", () => statuses.length === 2);
    expect(entered).toBe(2);
    expect(statuses).toEqual([503, 503]);
    gate.resolve("UNKNOWN");
    await Promise.all(polls);
    expect(statuses).toEqual([503, 503, 401, 401, 401, 401, 401]);
  });
});
