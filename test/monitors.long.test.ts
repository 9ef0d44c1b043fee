/**
 * The examples that report the presence of nodes, with the programs that they are for: Debian's `serf` and
 * `prometheus-alertmanager`. They have a token that sends only their document.
 */
import { execFileSync, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "./support/eventually.ts";
import { serviceUnderTest } from "./support/service.ts";

const EXAMPLES = fileURLToPath(new URL("../examples", import.meta.url));
const SERF = join(EXAMPLES, "serf/presence.py");
const RECEIVER = join(EXAMPLES, "alertmanager/presence.py");
const TOKEN = "a-token-of-some-length";
const WITHIN_MS = 60_000;

const ostler = await serviceUnderTest({ token: TOKEN });
const folder = mkdtempSync(join(tmpdir(), "ostler-monitors-"));
const programs = new Set<ChildProcess>();
/** Output of the programs so far. */
let output = "";
let secret = "";
let address = "";
/** False: the service does not answer the programs. */
let isUp = true;

/** The service, as the programs reach it. */
const way = createServer((request, response) => {
  void (async () => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (!isUp) return response.writeHead(503).end();
    const { authorization = "", "content-type": type = "" } = request.headers;
    const answer = await fetch(`${ostler.url}/graphql`, {
      method: "POST",
      headers: { authorization, "content-type": type },
      body: Buffer.concat(chunks),
    });
    response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  })();
});

/** Ports that are free now. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  for (const server of servers) server.close();
  return ports;
}

function start(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
  const child = spawn(command, args, {
    env: { ...process.env, OSTLER_URL: address, OSTLER_TOKEN: secret, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const pipe of [child.stdout, child.stderr]) pipe.on("data", (text: Buffer) => (output += text.toString()));
  programs.add(child);
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  programs.delete(child);
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

interface Seen {
  readonly presence: string;
  readonly revision: number;
}

async function nodes(): Promise<Record<string, Seen>> {
  const { nodes: page } = await ostler.query<{ nodes: { nodes: (Seen & { name: string })[] } }>(
    "{ nodes(first: 100) { nodes { name presence revision } } }",
  );
  return Object.fromEntries(page.nodes.map(({ name, ...node }) => [name, node]));
}

const become = (presence: string, ...names: readonly string[]) =>
  eventually(
    `${names.join(", ")} become ${presence}`,
    async () => {
      const seen = await nodes();
      return names.every((name) => seen[name]?.presence === presence);
    },
    WITHIN_MS,
  );

beforeAll(async () => {
  way.listen(0, "127.0.0.1");
  await once(way, "listening");
  address = `http://127.0.0.1:${(way.address() as AddressInfo).port}/graphql`;
  await ostler.register(["serf-a", "serf-b", "serf-c", "alert-a", "alert-b"]);
  const text = execFileSync("python3", [SERF, "document"]).toString();
  const { registerDocuments } = await ostler.query<{ registerDocuments: { documents: { id: string }[] } }>(
    "mutation Register($text: String!) { registerDocuments(input: { documents: [{ text: $text }] }) { documents { id } errors { message } } }",
    { text },
  );
  const { createToken } = await ostler.query<{ createToken: { secret: string } }>(
    `mutation Robot($id: String!) {
      createAccount(input: { name: "monitor" }) { errors { message } }
      setRoles(input: { principal: "account:monitor", roles: [{ role: "operator" }] }) { errors { message } }
      createToken(input: { account: "monitor", documents: [{ id: $id }] }) { secret errors { message } }
    }`,
    { id: registerDocuments.documents[0]?.id },
  );
  secret = createToken.secret;
});

afterEach(async () => {
  await Promise.all([...programs].map(kill));
  isUp = true;
  output = "";
});

afterAll(async () => {
  way.close();
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test("both examples send the same document", () => {
  const [one, other] = [SERF, RECEIVER].map((program) => execFileSync("python3", [program, "document"]).toString());
  expect(one).toBe(other);
});

describe("example for Serf", () => {
  const names = ["serf-a", "serf-b", "serf-c", "unknown-d"] as const;

  async function lab() {
    const ports = await freePorts(2 * names.length);
    const [bind, rpc] = [ports.slice(0, names.length), ports.slice(names.length)];
    const env = {
      SERF_RPC_ADDR: `127.0.0.1:${rpc[0]}`,
      OSTLER_SERF_FILE: join(mkdtempSync(join(folder, "serf-")), "members.json"),
      OSTLER_SERF_SECONDS: "1",
    };
    /** The first agent has the handler. The profile for one machine detects failures within seconds. */
    const agent = (index: number, handler = index === 0, joined = index === 0 ? 1 : 0): ChildProcess => {
      const [name = "", other] = [names[index], bind[joined]];
      const given = [
        `-node=${name}`,
        `-bind=127.0.0.1:${bind[index]}`,
        `-rpc-addr=127.0.0.1:${rpc[index]}`,
        "-profile=local",
      ];
      const joining = [`-retry-join=127.0.0.1:${other}`, "-retry-interval=1s"];
      const events = "member-join,member-leave,member-failed,member-update,member-reap";
      return start(
        "serf",
        ["agent", ...given, ...joining, ...(handler ? [`-event-handler=${events}=${SERF}`] : [])],
        env,
      );
    };
    return { agent, watch: () => start("python3", [SERF, "watch"], env) };
  }

  test("event handler of Serf reports members that join, are killed, and come back, without any other help [R-1206]", async () => {
    const { agent } = await lab();
    agent(0);
    const others = [agent(1), agent(2)];
    await become("DISCOVERED", "serf-a", "serf-b", "serf-c");
    await kill(others[0] as ChildProcess);
    await become("DISAPPEARED", "serf-b");
    agent(1);
    await become("DISCOVERED", "serf-b");
    expect((await nodes())["serf-c"]?.presence).toBe("DISCOVERED");
  });

  test("watcher of Serf reports all members once Serf is there, names unknown nodes, and reports what happened while Serf was down [R-1206]", async () => {
    const { agent, watch } = await lab();
    watch();
    await eventually("the watcher waits for Serf", () => output.includes("Serf does not answer"), WITHIN_MS);
    const first = agent(0, false);
    const second = agent(1);
    agent(2);
    agent(3);
    await become("DISCOVERED", "serf-a", "serf-b", "serf-c");
    await eventually("the unknown node is named", () => output.includes("Node unknown-d is not registered"), WITHIN_MS);
    await kill(first);
    await kill(second);
    await eventually(
      "the watcher sees that Serf is down",
      () => output.split("Serf does not answer").length > 2,
      WITHIN_MS,
    );
    expect((await nodes())["serf-c"]?.presence, "Serf is down, the nodes are not").toBe("DISCOVERED");
    // It joins the third one, as the second one is gone: it never learns of it.
    agent(0, false, 2);
    await become("DISAPPEARED", "serf-b");
    expect((await nodes())["serf-c"]?.presence).toBe("DISCOVERED");
  });

  test("Serf that is restarted twenty times changes nothing [R-1206]", async () => {
    const { agent, watch } = await lab();
    let first = agent(0);
    const second = agent(1);
    agent(2);
    watch();
    await become("DISCOVERED", "serf-a", "serf-b", "serf-c");
    const before = await nodes();
    for (let restart = 0; restart < 20; restart += 1) {
      await kill(first);
      output = "";
      first = agent(0);
      await eventually("the handler was called", () => output.includes("EventMemberJoin: serf-b"), WITHIN_MS);
    }
    expect(await nodes()).toEqual(before);
    await kill(second);
    await become("DISAPPEARED", "serf-b");
    expect(await nodes()).toEqual({ ...before, "serf-b": { presence: "DISAPPEARED", revision: expect.any(Number) } });
  });

  test("watcher of Serf reports what Ostler did not receive [R-1206]", async () => {
    const { agent, watch } = await lab();
    agent(0);
    const second = agent(1);
    agent(2);
    watch();
    await become("DISCOVERED", "serf-a", "serf-b", "serf-c");
    isUp = false;
    await kill(second);
    await eventually("the report has failed", () => output.includes("not reported"), WITHIN_MS);
    expect((await nodes())["serf-b"]?.presence).toBe("DISCOVERED");
    isUp = true;
    await become("DISAPPEARED", "serf-b");
  });
});

describe("example for Alertmanager", () => {
  async function lab() {
    const [web, listen] = await freePorts(2);
    const config = join(folder, `alertmanager-${web}.yml`);
    const given = readFileSync(join(EXAMPLES, "alertmanager/alertmanager.yml"), "utf8");
    const quick = given
      .replace("group_wait: 5s", "group_wait: 0s")
      .replace("group_interval: 10s", "group_interval: 1s");
    writeFileSync(config, quick.replace("127.0.0.1:9095", `127.0.0.1:${listen}`));
    start("python3", [RECEIVER], { LISTEN: `127.0.0.1:${listen}` });
    await eventually("the receiver listens", () => output.includes(`listening on 127.0.0.1:${listen}`), WITHIN_MS);
    start("prometheus-alertmanager", [
      `--config.file=${config}`,
      `--storage.path=${mkdtempSync(join(folder, "alertmanager-"))}`,
      `--web.listen-address=127.0.0.1:${web}`,
      "--cluster.listen-address=",
    ]);
    const url = `http://127.0.0.1:${web}`;
    await eventually(
      "Alertmanager is ready",
      async () => (await fetch(`${url}/-/ready`).catch(() => null))?.ok === true,
      WITHIN_MS,
    );
    /** As Prometheus sends them: again and again while they fire, and with an end when they are over. */
    const alert = async (node: string | null, state: "firing" | "resolved") => {
      const labels = { alertname: "NodeDown", ...(node !== null && { node }) };
      const ends = state === "resolved" ? { endsAt: new Date().toISOString() } : {};
      const answer = await fetch(`${url}/api/v2/alerts`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify([{ labels, startsAt: new Date(Date.now() - 60_000).toISOString(), ...ends }]),
      });
      expect(answer.status).toBe(200);
    };
    return { alert, receiver: `http://127.0.0.1:${listen}/` };
  }

  test("alert that fires and is resolved makes its node DISAPPEARED and DISCOVERED; unknown nodes disturb no other [R-1207]", async () => {
    const { alert } = await lab();
    await alert("unknown-x", "firing");
    await alert(null, "firing");
    await alert("alert-a", "firing");
    await alert("alert-b", "firing");
    await become("DISAPPEARED", "alert-a", "alert-b");
    expect(output).toContain("Node unknown-x does not exist");
    expect(output).toContain("an alert has no label node");
    const { revision } = (await nodes())["alert-b"] ?? {};
    await alert("alert-a", "resolved");
    await become("DISCOVERED", "alert-a");
    // Its group was notified again, with the other alert.
    expect((await nodes())["alert-b"]).toEqual({ presence: "DISAPPEARED", revision });
    await alert("alert-b", "resolved");
    await become("DISCOVERED", "alert-b");
  });

  test("Alertmanager tries again while Ostler does not answer [R-1207]", async () => {
    const { alert } = await lab();
    isUp = false;
    await alert("alert-a", "firing");
    await eventually("the report has failed", () => output.includes("not reported: HTTP Error 503"), WITHIN_MS);
    isUp = true;
    await become("DISAPPEARED", "alert-a");
  });

  test.each([
    ["no JSON", "{", 400],
    ["other JSON", "[1]", 400],
    ["alerts without labels", '{"alerts":[{"status":"firing"}]}', 400],
  ])("receiver refuses %s, and goes on", async (_what, body, status) => {
    const { receiver, alert } = await lab();
    expect((await fetch(receiver, { method: "POST", body })).status).toBe(status);
    await alert("alert-b", "firing");
    await become("DISAPPEARED", "alert-b");
  });
});
