/** The reports of the listener to the observer of the service. */
import { writeFileSync } from "node:fs";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { noopObserver } from "../../src/observer.ts";
import type { Observer } from "../../src/observer.ts";
import { eventually } from "../support/eventually.ts";
import { BEARER, REPORT, SECRET, SESSION, TICKET, startLab, writeMedia } from "./lab.ts";
import type { Lab } from "./lab.ts";

const labs = new AsyncDisposableStack();
afterAll(() => labs[Symbol.asyncDispose]());

const IMAGE = "2b671a64-40d5-491e-99b0-da01ff1f3341";
const IMAGE_BYTES = 300_000;
const MEDIUM = `/media/${SESSION}.${SECRET}/agent.iso`;

interface WatchedLab extends Lab {
  /** Requests with their status, in the order in which they ended. */
  readonly requests: readonly string[];
  readonly refusals: readonly string[];
  readonly bytes: Readonly<Record<string, number>>;
}

async function watchedLab(agents: Parameters<typeof startLab>[0]): Promise<WatchedLab> {
  const requests: string[] = [];
  const refusals: string[] = [];
  const bytes: Record<string, number> = {};
  const observer: Observer = {
    ...noopObserver,
    machineAnswered: (request, status) => void requests.push(`${request} ${status ?? "cut"}`),
    agentRefused: (reason) => void refusals.push(reason),
    fileBytesSent(file, count) {
      bytes[file] = (bytes[file] ?? 0) + count;
    },
  };
  let path = "";
  const storedImage = async (id: string) => (id === IMAGE ? { path, sizeBytes: IMAGE_BYTES } : null);
  const lab = labs.use(await startLab(agents, { observer, storedImage }));
  writeMedia(lab.folder);
  path = join(lab.folder, "image");
  writeFileSync(path, Buffer.alloc(IMAGE_BYTES, "x"));
  return { ...lab, requests, refusals, bytes, [Symbol.asyncDispose]: () => lab[Symbol.asyncDispose]() };
}

const post = (url: string, body: unknown, headers: Readonly<Record<string, string>> = BEARER) =>
  fetch(url, { method: "POST", headers, body: JSON.stringify(body) });

test("each request of a machine is reported with its kind and status, under a path with a secret too [R-682]", async () => {
  const { url, requests } = await watchedLab({
    isOpen: async () => true,
    medium: async () => TICKET,
    poll: async () => ({ do: "wait", seconds: 1 }),
    result: async () => "TAKEN",
    callHome: async () => true,
  });
  const calls: readonly (readonly [() => Promise<Response>, string])[] = [
    [() => fetch(`${url}/boot/ipxe`), "boot_script 200"],
    [() => fetch(`${url}/boot/ipxe?mac=52:54:00:77:00:01`), "boot_script 200"],
    [() => post(`${url}/boot/dhcp?mac=52:54:00:77:00:01`, {}), "lease 204"],
    [() => post(`${url}/boot/dhcp?mac=none`, {}), "lease 400"],
    [() => fetch(`${url}/boot/agent/x64/vmlinuz`), "boot_file 200"],
    [() => fetch(`${url}/boot/agent/arm64/vmlinuz`), "boot_file 404"],
    [() => fetch(`${url}${MEDIUM}`, { method: "HEAD" }), "boot_medium 200"],
    [() => fetch(`${url}${MEDIUM}`, { headers: { range: "bytes=0-9" } }), "boot_medium 206"],
    [() => fetch(`${url}/images/${IMAGE}`, { headers: BEARER }), "image 200"],
    [() => fetch(`${url}/images/${IMAGE}`), "image 401"],
    [() => post(`${url}/agent/v1/poll`, REPORT), "agent_poll 200"],
    [() => post(`${url}/agent/v1/poll`, { ...REPORT, protocol: 1 }), "agent_poll 400"],
    [() => post(`${url}/agent/v1/result`, { instance: REPORT.instance, task: "t", ok: true }), "agent_result 202"],
    [() => post(`${url}/home/${SECRET}`, {}), "call_home 200"],
    [() => fetch(`${url}/graphql?${SECRET}`), "none 404"],
  ];
  for (const [index, [call]] of calls.entries()) {
    await (await call()).arrayBuffer();
    await eventually("the request is reported", () => requests.length > index);
  }
  expect(requests).toEqual(calls.map(([, expected]) => expected));
});

test("bytes of files are reported by kind, ranges with their own size, and HEAD with none [R-682]", async () => {
  const { url, bytes } = await watchedLab({ isOpen: async () => true, medium: async () => TICKET });
  await fetch(`${url}${MEDIUM}`, { method: "HEAD" });
  expect(bytes).toEqual({});
  await (await fetch(`${url}${MEDIUM}`, { headers: { range: "bytes=10-19" } })).arrayBuffer();
  await (await fetch(`${url}/images/${IMAGE}`, { headers: BEARER })).arrayBuffer();
  await (await fetch(`${url}/boot/agent/x64/vmlinuz`)).arrayBuffer();
  expect(bytes).toEqual({ boot_medium: 10, image: IMAGE_BYTES, boot_file: 70_000 });
});

test("a request whose client disconnects before the response is reported as cut", async () => {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<null>();
  const { url, requests } = await watchedLab({
    networkBoot() {
      asked.resolve();
      return answer.promise;
    },
  });
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  await once(socket, "connect");
  socket.write("GET /boot/ipxe?mac=52:54:00:77:00:01 HTTP/1.1\r\nhost: a\r\n\r\n");
  await asked.promise;
  socket.destroy();
  await eventually("the request is reported", () => requests.length > 0);
  answer.resolve(null);
  expect(requests).toEqual(["boot_script cut"]);
});

test("refused agents are reported: a wrong secret, none at all, and a second agent [R-682]", async () => {
  const { url, refusals } = await watchedLab({
    poll: async (_, { instance }) => (instance === REPORT.instance ? "UNKNOWN" : "STRANGER"),
    result: async () => "STRANGER",
  });
  await post(`${url}/agent/v1/poll`, REPORT);
  await post(`${url}/agent/v1/poll`, REPORT, {});
  await post(`${url}/agent/v1/poll`, { ...REPORT, instance: "another-agent-0000" });
  await post(`${url}/agent/v1/result`, { instance: REPORT.instance, task: "t", ok: true });
  expect(refusals).toEqual(["unknown", "unknown", "second", "second"]);
});
