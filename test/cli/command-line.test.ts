/** The command line against the service: selections, questions, waiting, exit codes, and losses of the connection. */
import { createServer } from "node:http";
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { cutter } from "../support/cutter.ts";
import { registeredNode, serviceUnderTest } from "../support/service.ts";
import { HOME, startCli } from "./run-cli.ts";
import type { Ended } from "./run-cli.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const cli = (args: readonly string[], url = ostler.url, input = ""): Promise<Ended> =>
  startCli(args, { OSTLER_URL: url }, input).ended;
const FAILING = { "deploy.write_image": { fail: "no space left on disk" } };

async function operations(): Promise<number> {
  const found = await ostler.query<{ operations: { totalCount: number } }>("{ operations { totalCount } }");
  return found.operations.totalCount;
}

describe("reads", () => {
  test("nodes get skips unknown names, and reports them", async () => {
    const [name = ""] = await ostler.register(1, {});
    const { code, out, err } = await cli(["nodes", "get", name, "nope", "--output", "names"]);
    expect({ code, out }).toEqual({ code: 0, out: `${name}\n` });
    expect(err).toContain("nope");
  });

  test("nodes why suggests the next command with the node, and no abort of work that goes on", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
    expect((await cli(["nodes", "why", name])).out).toContain(`next: ostler nodes `);
    const id = await ostler.begin("deployNodes", [name]);
    await gate.arrivals();
    const working = (await cli(["nodes", "why", name])).out;
    expect(working).toContain(`next: ostler `);
    expect(working).not.toContain("abort");
    gate.open();
    await ostler.operationEnds(id);
  });

  test("nodes why of a stopped node has the operation, the step before which it stopped, and the restart", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.prepare": { gate: gate.name } });
    const id = await ostler.begin("deployNodes", [name]);
    await gate.arrivals();
    await cli(["operations", "stop", name]);
    gate.open();
    expect(await ostler.operationEnds(id)).toBe("STOPPED");
    const { out } = await cli(["nodes", "why", name]);
    expect(out).toMatch(/ STOPPED {2}DEPLOY [0-9a-f]{8} stopped before write_image; /);
    expect(out).toContain(`next: ostler operations restart ${name}`);
  });

  test("--json of a read is one document with the names of the schema", async () => {
    const [name = ""] = await ostler.register(1, {});
    const { out } = await cli(["nodes", "get", name, "--json"]);
    expect(JSON.parse(out)).toMatchObject([{ name, state: "ENROLLED", currentRun: null }]);
  });

  test("-v prints the document, which runs as it is, and no secret", async () => {
    const settings = "{ me: viewer { subject } }";
    const { err } = await cli(["query", "-", "--var", "password=hunter2", "-v"], ostler.url, settings);
    expect(err).toContain('"password":"********"');
    expect(err).not.toContain("hunter2");
    const { errors } = await ostler.ask(
      err
        .split("\n")
        .filter((line) => !line.startsWith("#"))
        .join("\n"),
    );
    expect(errors).toEqual([]);
  });
});

describe("verbs", () => {
  test("a verb without a terminal and without --yes ends with 64, and starts nothing [R-1023]", async () => {
    const name = await registeredNode(ostler, "AVAILABLE");
    const before = await operations();
    const { code, err } = await cli(["nodes", "deploy", name]);
    expect(code).toBe(64);
    expect(err).toContain("--yes");
    expect(await operations()).toBe(before);
  });

  test("a verb with an unknown name ends with 2, names it, and starts nothing [R-1024]", async () => {
    const name = await registeredNode(ostler, "AVAILABLE");
    const before = await operations();
    const { code, err } = await cli(["nodes", "deploy", name, "nope-1", "--yes"]);
    expect(code).toBe(2);
    expect(err).toContain("nope-1");
    expect(await operations()).toBe(before);
  });

  test("--wait returns 0 for success, and stdout has the operation alone", async () => {
    const name = await registeredNode(ostler, "AVAILABLE");
    const { code, out, err } = await cli(["nodes", "deploy", name, "-g", "workers", "--wait", "--yes"]);
    expect({ code, err }).toMatchObject({ code: 0, err: expect.stringContaining("SUCCEEDED") });
    expect(out).toMatch(/^[0-9a-f-]{36}\n$/);
    expect(await ostler.query(`{ node(by: { name: "${name}" }) { hostGroup } }`)).toEqual({
      node: { hostGroup: "workers" },
    });
  });

  test("clusters apply shows the reasons, works once, and then has nothing to do", async () => {
    const [node = ""] = await ostler.register(1, {});
    expect((await cli(["clusters", "create", "berlin", node, "-e", '{"ntp":"10.0.0.1"}'])).code).toBe(0);
    const planned = await cli(["clusters", "apply", "berlin", "--dry-run"]);
    expect(planned).toMatchObject({ code: 0, out: expect.stringContaining("1  new") });
    expect(await cli(["clusters", "apply", "berlin"])).toMatchObject({ code: 64 });
    expect(await cli(["clusters", "apply", "berlin", "--yes", "--wait"])).toMatchObject({ code: 0 });
    const before = await operations();
    const again = await cli(["clusters", "apply", "berlin", "--yes"]);
    expect(again).toMatchObject({ code: 0, out: "", err: expect.stringContaining("1  nothing to do") });
    expect(await operations()).toBe(before);
    await cli(["clusters", "vars", "set", "berlin", "ntp=10.0.0.2"]);
    const { out } = await cli(["clusters", "apply", "berlin", "--dry-run"]);
    expect(out).toContain("1  variables.ntp: 10.0.0.1 → 10.0.0.2");
  });

  test("clusters create and edit set the image and the name of a cluster, and clear the image [R-1348]", async () => {
    const image = {
      name: "debian-13",
      url: "http://images.example/debian-13",
      format: "RAW",
      architecture: "X64",
      sizeBytes: 1,
      checksum: { value: "0".repeat(64) },
    };
    await ostler.query(
      "mutation Add($image: RegisterImageInput!) { registerImages(input: { images: [$image] }) { errors { message } } }",
      {
        image,
      },
    );
    const wants = async (name: string) =>
      (
        await ostler.query<{ cluster: { image: { name: string } | null } | null }>(
          `{ cluster(by: { name: "${name}" }) { image { name } } }`,
        )
      ).cluster;
    expect(await cli(["clusters", "create", "imaged", "--image", "debian-13"])).toMatchObject({ code: 0 });
    expect(await wants("imaged")).toEqual({ image: { name: "debian-13" } });
    expect(await cli(["clusters", "edit", "imaged", "--image", "none", "--name", "renamed"])).toMatchObject({
      code: 0,
    });
    expect(await wants("renamed")).toEqual({ image: null });
    expect(await cli(["clusters", "edit", "renamed", "--image", "debian-13"])).toMatchObject({ code: 0 });
    expect(await wants("renamed")).toEqual({ image: { name: "debian-13" } });
    expect(await cli(["clusters", "edit", "renamed", "--image", "lost"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("lost"),
    });
    expect(await cli(["clusters", "edit", "renamed"])).toMatchObject({ code: 64 });
  });

  test("site set merges variables of the site, and site get has them [R-1350]", async () => {
    expect(await cli(["site", "set", 'variables={"dns":"10.0.0.3","ntp":"10.0.0.1"}'])).toMatchObject({ code: 0 });
    expect(await cli(["site", "set", 'variables={"dns":null}'])).toMatchObject({ code: 0 });
    const { out } = await cli(["site", "get", "--json"]);
    expect(JSON.parse(out)).toMatchObject({ variables: { ntp: "10.0.0.1" } });
    await cli(["site", "set", 'variables={"ntp":null}']);
  });

  test("clusters groups and vars -g change the named groups alone, and clusters get shows them with what is pending [R-1290]", async () => {
    const [master = "", worker = ""] = await ostler.register(2, {});
    await cli(["nodes", "edit", master, "-g", "masters"]);
    await cli(["nodes", "edit", worker, "-g", "workers"]);
    await cli(["clusters", "create", "roles", master, worker]);
    const set = (...words: readonly string[]) => cli(["clusters", "groups", "set", "roles", ...words]);
    expect(await set("masters", "--min-active", "1", "--tolerates", "0")).toMatchObject({
      code: 0,
      err: "Host groups of cluster roles: masters added.\n",
    });
    expect(await set("workers", "--after", "masters=50%", "--tolerates", "2%")).toMatchObject({ code: 0 });
    const token = '{"fromGroup":"masters","output":"join_token"}';
    const vars = (...words: readonly string[]) => cli(["clusters", "vars", ...words]);
    expect(await vars("set", "roles", "-g", "workers", "mtu=9000", "zone=a")).toMatchObject({ code: 0 });
    expect(await vars("unset", "roles", "-g", "workers", "zone")).toMatchObject({ code: 0 });
    expect(await vars("set", "roles", "-g", "workers", `join=${token}`)).toMatchObject({ code: 0 });
    // What is not named stays.
    expect(await set("workers", "--tolerates", "none")).toMatchObject({ code: 0 });
    const { out } = await cli(["clusters", "groups", "get", "roles", "--json"]);
    expect(JSON.parse(out)).toEqual([
      {
        name: "masters",
        after: [],
        tolerates: { count: 0, percent: null },
        minActive: { count: 1, percent: null },
        nodeCount: 1,
        inServiceCount: 0,
        variables: {},
      },
      {
        name: "workers",
        after: [{ group: "masters", share: { count: null, percent: 50 } }],
        tolerates: null,
        minActive: null,
        nodeCount: 1,
        inServiceCount: 0,
        variables: { mtu: 9000, join: JSON.parse(token) },
      },
    ]);
    const shown = (await cli(["clusters", "get", "roles"])).out;
    expect(shown).toContain("masters: 0 of 1 node in service; tolerates 0; min-active 1");
    expect(shown).toContain("workers: 0 of 1 node in service; after masters=50%; variables ");
    expect(shown).toContain("2 nodes: ostler clusters apply roles");
    expect(shown).toMatch(new RegExp(`2 {2}new {4}(${master} ${worker}|${worker} ${master})`));
    const planned = await cli(["clusters", "apply", "roles", "--dry-run"]);
    expect(planned.out).toContain(
      "  masters: 1 node, at once\n  workers: 1 node, when 1 of masters are ACTIVE (0 count already)\n",
    );
    expect(await cli(["clusters", "groups", "unset", "roles", "workers"])).toMatchObject({
      code: 0,
      err: "Host groups of cluster roles: workers removed.\n",
    });
    expect((await cli(["clusters", "groups", "get", "roles", "--output", "names"])).out).toBe("masters\n");
  });

  test("wrong rules of host groups are refused together, in the flags with 64 and by the service with 2 [R-1291]", async () => {
    await cli(["clusters", "create", "flaws"]);
    const wrong = "--after masters=150% --after a=x --tolerates 5%% --min-active 1e9".split(" ");
    const flags = await cli(["clusters", "groups", "set", "flaws", "workers", ...wrong]);
    expect(flags.code).toBe(64);
    expect(flags.err.match(/^--(after|tolerates|min-active) cannot be /gm)).toHaveLength(4);
    const rules = await cli([
      "clusters",
      "groups",
      "set",
      "flaws",
      "workers",
      "--after",
      "masters",
      "--after",
      "workers",
    ]);
    expect(rules.code).toBe(2);
    expect(rules.err).toContain("workers comes after masters, which the cluster does not have");
    expect(rules.err).toContain("workers cannot come after itself");
    const unknown = await cli(["clusters", "groups", "unset", "flaws", "one", "two"]);
    expect(unknown.code).toBe(2);
    expect(unknown.err.trim().split("\n")).toHaveLength(2);
    expect(await cli(["clusters", "vars", "set", "flaws", "-g", "one", "a=1"])).toMatchObject({ code: 2 });
    expect((await cli(["clusters", "groups", "get", "flaws", "--json"])).out).toBe("[]\n");
  });

  test("--wait returns 1 for a failure, with step, cause and node on stderr", async () => {
    const name = await registeredNode(ostler, "AVAILABLE", FAILING);
    const { code, err } = await cli(["nodes", "deploy", name, "--wait", "--yes"]);
    expect(code).toBe(1);
    expect(err).toMatch(new RegExp(`write_image: .*no space left on disk.*${name}`));
  });

  test("--best-effort with a refused node returns 1, and works on the others", async () => {
    const name = await registeredNode(ostler, "AVAILABLE");
    const [enrolled = ""] = await ostler.register(1, {});
    const { code, err } = await cli(["nodes", "deploy", name, enrolled, "--best-effort", "--wait", "--yes"]);
    expect(code).toBe(1);
    expect(err).toContain("1 refused");
  });

  test("--wait returns 75 at the timeout, 3 after a stop, and 130 after Ctrl-C; the operation continues [R-1025]", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
    const late = await cli(["nodes", "deploy", name, "--wait", "--timeout", "1s", "--yes"]);
    expect(late.code).toBe(75);
    const id = late.out.trim();
    const watching = startCli(["operations", "watch", id], { OSTLER_URL: ostler.url });
    const waiting = startCli(["operations", "watch", id.slice(0, 8)], { OSTLER_URL: ostler.url });
    await Promise.all([watching.printed("RUNNING"), waiting.printed("RUNNING")]);
    watching.interrupt();
    const interrupted = await watching.ended;
    expect(interrupted.code).toBe(130);
    expect(interrupted.err).toContain(`ostler operations stop ${id}`);
    expect((await cli(["operations", "stop", name])).code).toBe(0);
    gate.open();
    expect((await waiting.ended).code).toBe(3);
  });

  test("--wait --json prints one object per line, also when something fails", async () => {
    const name = await registeredNode(ostler, "AVAILABLE", FAILING);
    const { code, out } = await cli(["nodes", "deploy", name, "--wait", "--yes", "--json"]);
    const lines = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { operation: { state?: string } });
    expect(code).toBe(1);
    expect(lines.at(-1)?.operation.state).toBe("FAILED");
  });

  test("stop and set-maintenance with an unknown name change nothing, and end with 2 [R-1024]", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
    const id = await ostler.begin("deployNodes", [name]);
    await gate.arrivals();
    expect(await cli(["operations", "stop", name, "nope-2"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("nope-2"),
    });
    expect(await cli(["nodes", "set-maintenance", name, "nope-2", "--reason", "fan"])).toMatchObject({ code: 2 });
    expect(await ostler.query(`{ node(by: { name: "${name}" }) { maintenance { reason } } }`)).toEqual({
      node: { maintenance: null },
    });
    gate.open();
    expect(await ostler.operationEnds(id)).toBe("SUCCEEDED");
  });

  test("nodes why names what helps: the end of a maintenance, the missing work, and nothing for a node in service", async () => {
    const [enrolled = ""] = await ostler.register(1, {});
    const active = await registeredNode(ostler, "ACTIVE");
    const kept = await registeredNode(ostler, "ACTIVE");
    await cli(["nodes", "set-maintenance", kept, "--reason", "fan"]);
    const { out } = await cli(["nodes", "why", enrolled, active, kept]);
    expect(out).toContain(`next: ostler nodes commission ${enrolled}\n`);
    expect(out).toContain(`${active}  ACTIVE  needs nothing\n`);
    expect(out).toContain(`in maintenance: fan; next: ostler nodes clear-maintenance ${kept}\n`);
    const failure = {
      code: "BACKEND_FAILED",
      message: "The BMC is silent.",
      retryable: true,
      at: new Date().toISOString(),
    };
    await ostler.test.sql`
      update nodes set fault_kind = 'BMC_UNREACHABLE', fault_since = now(), fault_message = ${failure.message}, last_error = ${ostler.test.sql.json(failure)}
      where name = ${active}`;
    expect((await cli(["nodes", "why", active])).out).toContain(`${active}  ACTIVE  The BMC is silent; next: `);
  });

  test("refusals are in words of the command line, not of the API", async () => {
    const active = await registeredNode(ostler, "ACTIVE");
    const { err } = await cli(["nodes", "deploy", active, "--yes"]);
    expect(err).toContain("Send --reinstall to erase its system and install again, or use `ostler nodes redeploy`.");
  });

  test("nodes watch reports unknown names, and that there are no nodes", async () => {
    const watch = startCli(["nodes", "watch", "nope-7"], { OSTLER_URL: ostler.url });
    await watch.printed("Unknown nodes, skipped: nope-7");
    watch.interrupt();
    expect(await watch.ended).toMatchObject({ code: 130, out: "", err: expect.stringContaining("No nodes.") });
  });

  test("operations log reports that there are no lines, and --wait how stopped work goes on", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.prepare": { gate: gate.name } });
    const id = await ostler.begin("deployNodes", [name]);
    await gate.arrivals();
    expect(await cli(["operations", "log", id, name])).toMatchObject({
      code: 0,
      out: "",
      err: expect.stringContaining("no lines"),
    });
    await cli(["operations", "stop", name]);
    gate.open();
    const { code, err } = await cli(["operations", "watch", id]);
    expect(code).toBe(3);
    expect(err).toMatch(/; to go on: ostler operations restart [0-9a-f]{8}\n$/);
  });

  test.each([
    ["get nodes", "nodes get"],
    ["describe node u1", "nodes show"],
    ["nodes list", "nodes get"],
    ["cluster get", "clusters get"],
    ["operations logs 1 u1", "operations log"],
  ])("%j of other programs names the command that is meant", async (words, meant) => {
    const { code, err } = await cli(words.split(" "));
    expect({ code, err }).toEqual({ code: 64, err: expect.stringContaining(`Use \`ostler ${meant}\`.`) });
  });

  test("nodes maintenance and nodes update name the commands that are meant", async () => {
    expect((await cli(["nodes", "maintenance", "u1"])).err).toMatch(/nodes redeploy.*nodes set-maintenance/);
    const { code, err } = await cli(["nodes", "update", "u1"]);
    expect({ code, err }).toEqual({ code: 64, err: expect.stringMatching(/nodes redeploy.*nodes edit/) });
    const unknown = await cli(["nodes", "comission", "u1"]);
    expect(unknown).toMatchObject({ code: 64, err: expect.stringContaining("commission") });
  });

  test("nodes delete sends the nodes that were shown, and refuses unknown names", async () => {
    const [name = ""] = await ostler.register(1, {});
    expect((await cli(["nodes", "delete", name, "nope", "--yes"])).code).toBe(2);
    expect(await cli(["nodes", "delete", name, "--yes"])).toMatchObject({
      code: 0,
      err: expect.stringContaining(name),
    });
    expect(await ostler.query(`{ node(by: { name: "${name}" }) { id } }`)).toEqual({ node: null });
  });
});

describe("losses of the connection", () => {
  test("the answer to a verb is lost: the request is repeated with its key, and one operation exists [R-1026]", async () => {
    const name = await registeredNode(ostler, "AVAILABLE");
    const before = await operations();
    let losses = 1;
    await using front = await proxy(async (request, response, body) => {
      const isRequest = body.includes("idempotencyKey");
      const answer = await forward(request, body);
      if (isRequest && losses > 0) {
        losses -= 1;
        response.destroy();
      } else response.writeHead(200, { "content-type": "application/json" }).end(answer);
    });
    const { code, out } = await cli(["nodes", "deploy", name, "--yes"], front.url);
    expect(code).toBe(0);
    expect(await operations()).toBe(before + 1);
    await ostler.operationEnds(out.trim());
  });

  test("Ctrl-C during a request that is not answered prints its key and plan; the repetition starts no second operation [R-1026]", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
    const before = await operations();
    let arrived = () => {};
    const hasArrived = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    await using front = await proxy(async (request, response, body) => {
      const answer = await forward(request, body);
      if (body.includes("idempotencyKey")) arrived();
      else response.writeHead(200, { "content-type": "application/json" }).end(answer);
    });
    const deploy = startCli(["nodes", "deploy", name, "--yes"], { OSTLER_URL: front.url });
    await hasArrived;
    deploy.interrupt();
    const { code, err } = await deploy.ended;
    expect(code).toBe(130);
    const repetition = /--yes --idempotency-key \S+ --plan-hash \S+/.exec(err)?.[0].split(" ") ?? [];
    await gate.arrivals();
    const repeated = await cli(["nodes", "deploy", name, ...repetition]);
    expect(repeated.code).toBe(0);
    expect(await operations()).toBe(before + 1);
    gate.open();
    await ostler.operationEnds(repeated.out.trim());
  });

  test("Ctrl-C before the plan is there reports that nothing was sent", async () => {
    const name = await registeredNode(ostler, "AVAILABLE");
    const before = await operations();
    const { promise: hasArrived, resolve: arrived } = Promise.withResolvers<void>();
    await using front = await proxy(() => arrived());
    const deploy = startCli(["nodes", "deploy", name, "--yes"], { OSTLER_URL: front.url });
    await hasArrived;
    deploy.interrupt();
    expect(await deploy.ended).toMatchObject({ code: 130, out: "", err: "\nNothing was sent.\n" });
    expect(await operations()).toBe(before);
  });

  test("a script that repeats a command with its own key gets the same operation", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
    const command = ["nodes", "deploy", name, "--yes", "--idempotency-key", "job-7"];
    const first = await cli(command);
    await gate.arrivals();
    expect(await cli(command)).toMatchObject({ code: 0, out: first.out });
    gate.open();
    await ostler.operationEnds(first.out.trim());
  });

  test("--wait and nodes watch continue after cuts, without a missing or repeated line [R-1027]", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
    await using way = await cutter(ostler.url);
    const watch = startCli(["nodes", "watch", name], { OSTLER_URL: way.url });
    await watch.printed(`${name}  AVAILABLE`);
    const wait = startCli(["nodes", "deploy", name, "--wait", "--yes"], { OSTLER_URL: way.url });
    await wait.printed("RUNNING");
    await gate.arrivals();
    await watch.printed("→ DEPLOYING");
    way.cut();
    gate.open();
    expect((await wait.ended).code).toBe(0);
    await watch.printed("→ ACTIVE");
    watch.interrupt();
    const { code, out } = await watch.ended;
    expect(code).toBe(130);
    expect(out.match(/→ \w+/g)).toEqual(["→ DEPLOYING", "→ ACTIVE"]);
    expect(out.match(/AVAILABLE$/gm)).toHaveLength(1);
  });

  test("operations log -f continues after a cut before its first line, and equals the log [R-1027]", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.prepare": { gate: gate.name } });
    const id = await ostler.begin("deployNodes", [name]);
    await gate.arrivals();
    await using way = await cutter(ostler.url);
    const log = startCli(["operations", "log", id, name, "-f", "-v"], { OSTLER_URL: way.url });
    await log.printed("stream, request");
    way.cut();
    gate.open();
    const { code, out } = await log.ended;
    expect(code).toBe(0);
    expect(out).not.toBe("");
    expect((await cli(["operations", "log", id, name])).out).toBe(out);
  });

  test("a subscription of query continues after a cut by $after and its cursor, without a missing or repeated line [R-1133]", async () => {
    const gate = aGate();
    const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
    const document = `subscription S($after: String, $snapshot: Boolean!) {
      item: nodeTransitions(filter: { name: { eq: "${name}" } }, after: $after, snapshot: $snapshot) {
        ... on NodeSnapshot { node { state } } ... on Transition { cursor to } ... on StreamBookmark { cursor snapshotComplete }
      }
    }`;
    await using way = await cutter(ostler.url);
    const follow = startCli(["query", "-", "--var", "snapshot=true"], { OSTLER_URL: way.url }, document);
    await follow.printed('"snapshotComplete":true');
    const id = await ostler.begin("deployNodes", [name]);
    await gate.arrivals();
    await follow.printed('"to":"DEPLOYING"');
    way.cut();
    gate.open();
    await follow.printed('"to":"ACTIVE"');
    follow.interrupt();
    const { code, out } = await follow.ended;
    expect(code).toBe(130);
    expect(out.match(/"(to|state)":"\w+"/g)).toEqual(['"state":"AVAILABLE"', '"to":"DEPLOYING"', '"to":"ACTIVE"']);
    await ostler.operationEnds(id);
  });

  test("a subscription of query without $after ends with 69 after a cut, and says what to add [R-1133]", async () => {
    await using way = await cutter(ostler.url);
    const document = "subscription { nodeTransitions { ... on StreamBookmark { cursor } } }";
    const follow = startCli(["query", "-"], { OSTLER_URL: way.url }, document);
    await follow.printed('"cursor"');
    way.cut();
    expect(await follow.ended).toMatchObject({ code: 69, err: expect.stringContaining("$after: String") });
    const flawed = await cli(["query", "-"], ostler.url, "subscription { nodeTransitions { nope } }");
    expect(flawed).toMatchObject({ code: 2, err: expect.stringMatching(/^Cannot query field "nope"/) });
  });

  test("with --json what is printed of a list that is cut is a whole document [R-1134]", async () => {
    await ostler.register(2, {});
    await using front = await proxy(async (request, response, body) => {
      if (!body.includes('"after":null')) return response.writeHead(503).end();
      const answer = (await forward(request, body)).replace('"hasNextPage":false', '"hasNextPage":true');
      return response.writeHead(200, { "content-type": "application/json" }).end(answer);
    });
    const { code, out } = await cli(["nodes", "get", "--json"], front.url);
    expect(code).toBe(69);
    expect(JSON.parse(out)).toContainEqual(expect.objectContaining({ state: "ENROLLED" }));
  });

  test("the plan changes after it was shown: nothing is done until the new plan is shown", async () => {
    const name = await registeredNode(ostler, "AVAILABLE");
    let changes = 1;
    await using front = await proxy(async (request, response, body) => {
      if (body.includes('"planHash":"') && changes > 0) {
        changes -= 1;
        const input = { nodes: { names: [name] }, hostGroup: "other" };
        await ostler.query("mutation E($input: UpdateNodesInput!) { updateNodes(input: $input) { stored } }", {
          input,
        });
      }
      response.writeHead(200, { "content-type": "application/json" }).end(await forward(request, body));
    });
    const { code, err, out } = await cli(["nodes", "deploy", name, "--yes"], front.url);
    expect(err.match(/deploy 1 of 1 node/g)).toHaveLength(2);
    expect(code).toBe(0);
    await ostler.operationEnds(out.trim());
  });
});

describe("servers of other kinds", () => {
  const json = { "content-type": "application/json" };
  test.each<[string, number, string, (response: ServerResponse) => void]>([
    ["HTML", 69, "is not Ostler", (response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>")],
    [
      "a redirect",
      69,
      "redirects to https://b.example/",
      (response) => response.writeHead(301, { location: "https://b.example/" }).end(),
    ],
    ["401", 77, "401", (response) => response.writeHead(401).end()],
    [
      "403",
      77,
      "not allowed",
      (response) =>
        response.writeHead(403, json).end('{"errors":[{"message":"not allowed","extensions":{"code":"FORBIDDEN"}}]}'),
    ],
    [
      "421",
      69,
      "elsewhere",
      (response) =>
        response.writeHead(421, json).end('{"errors":[{"message":"elsewhere","extensions":{"code":"BAD_REQUEST"}}]}'),
    ],
    ["429", 69, "429", (response) => response.writeHead(429).end()],
    ["503", 69, "503", (response) => response.writeHead(503).end("later")],
    [
      "half an answer",
      69,
      "cannot be reached",
      (response) => response.writeHead(200, { ...json, "content-length": "99" }).write("{", () => response.destroy()),
    ],
    [
      "another schema",
      69,
      "older or newer schema",
      (response) =>
        response
          .writeHead(400, json)
          .end('{"errors":[{"message":"no field","extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}'),
    ],
    [
      "escape sequences",
      2,
      "\\x1b[31m",
      (response) => response.writeHead(200, json).end('{"errors":[{"message":"\\u001b[31m"}]}'),
    ],
  ])("%s ends a command with %i and one sentence with the request", async (_kind, code, text, answer) => {
    await using server = await proxy((_request, response) => {
      response.setHeader("x-request-id", "request-7");
      answer(response);
    });
    const ended = await cli(["nodes", "get"], server.url);
    expect(ended).toMatchObject({ code, out: "" });
    expect(ended.err).toContain(text);
    expect(ended.err.trim().split("\n")).toHaveLength(1);
    if (text !== "cannot be reached") expect(ended.err).toContain("request-7");
  });

  test("a port without a server ends with 69", async () => {
    const closed = await proxy(() => {});
    await closed[Symbol.asyncDispose]();
    expect((await cli(["nodes", "get"], closed.url)).code).toBe(69);
    expect((await cli(["nodes", "watch"], closed.url)).code).toBe(69);
  });
});

describe("contexts", () => {
  const environment = (name: string) => {
    const folder = join(HOME, name);
    mkdirSync(folder, { recursive: true });
    return { file: join(folder, "ostler", "contexts.json"), variables: { XDG_CONFIG_HOME: folder } };
  };

  test("login checks the token, stores it for its owner alone, and later commands send it; no command prints it", async () => {
    await using closed = await serviceUnderTest({ token: "t0ken" });
    const { file, variables } = environment("login");
    const run = (args: readonly string[], input = "") => startCli(args, variables, input).ended;
    expect((await run(["nodes", "get", "--server", closed.url])).code).toBe(77);
    expect((await run(["nodes", "watch", "--server", closed.url])).code).toBe(77);
    const wrong = await run(["login", "--server", closed.url], "wrong\n");
    expect(wrong).toMatchObject({
      code: 77,
      err: expect.stringContaining("Store a token that is valid: ostler login"),
    });
    expect(wrong.err).not.toContain("GraphiQL");
    expect((await run(["login", "--server", closed.url], "a\tb\n")).code).toBe(64);
    expect((await run(["login", "--server", closed.url], "t0ken\n")).code).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await run(["nodes", "get", "-v"])).code).toBe(0);
    const texts = await Promise.all([
      run(["context", "list", "--json"]),
      run(["context", "show"]),
      run(["nodes", "get", "-v"]),
    ]);
    expect(texts.map(({ out, err }) => out + err).join("")).not.toContain("t0ken");
    // A token is for its own server.
    expect((await run(["nodes", "get", "--server", closed.url])).code).toBe(77);
    expect(readFileSync(file, "utf8")).toContain("t0ken");
  });

  test.each([
    ["readable by others", '{"current":null,"contexts":[]}', 0o644, "chmod 600"],
    ["half written", '{"current":', 0o600, "is not a file of contexts"],
    ["of an unknown current context", '{"current":"lab","contexts":[]}', 0o600, "Context lab does not exist"],
  ])("a contexts file %s is an error that names it", async (name, text, mode, message) => {
    const { file, variables } = environment(name);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, text);
    chmodSync(file, mode);
    const { code, err } = await startCli(["nodes", "get"], variables).ended;
    expect({ code, err }).toEqual({ code: 64, err: expect.stringContaining(message) });
  });
});

/** A server in front of the service. */
async function proxy(
  handle: (request: IncomingMessage, response: ServerResponse, body: string) => unknown,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const listener: RequestListener = (request, response) => {
    let body = "";
    request.on("data", (data: Buffer) => {
      body += data.toString();
    });
    request.on("end", () => void handle(request, response, body));
  };
  const server: Server = createServer(listener);
  await new Promise<void>((listening) => void server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

async function forward(request: IncomingMessage, body: string): Promise<string> {
  const headers = { "content-type": "application/json", accept: request.headers.accept ?? "application/json" };
  return (await fetch(new URL("/graphql", ostler.url), { method: "POST", headers, body })).text();
}
