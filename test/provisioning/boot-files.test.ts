/** Files that machines boot: ranges, the ISO of a session, boot media that are replaced, slow and many clients. */
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { Agents, BootTicket } from "../../src/engine/agents/agents.ts";
import { eventually } from "../support/eventually.ts";
import {
  CONTACT,
  ARGUMENT_SLOT,
  BEARER,
  ISO_BYTES,
  SECRET,
  SESSION,
  SLOT,
  startLab,
  TICKET,
  writeMedia,
} from "./lab.ts";

const ISO = `/media/${SESSION}.${SECRET}/agent.iso`;
const KERNEL = `/boot/agent/x64/vmlinuz?session=${SESSION}`;
/** An engine with one session. */
const ONE_SESSION: Pick<Agents, "medium"> = {
  medium: async ({ session, secret }) => (session === SESSION && secret === SECRET ? TICKET : null),
};

const labs = new AsyncDisposableStack();
afterAll(() => labs[Symbol.asyncDispose]());

async function lab(...given: Parameters<typeof startLab>) {
  return labs.use(await startLab(...given));
}

async function bytesOf(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Buffer> {
  const response = await fetch(url, { headers });
  return Buffer.from(await response.arrayBuffer());
}

describe("the ISO of a session", () => {
  async function served() {
    const { url, folder, logged } = await lab(ONE_SESSION);
    const plain = writeMedia(folder);
    return { url, plain, logged, whole: await bytesOf(`${url}${ISO}`) };
  }

  test("the ISO contains the document and the kernel arguments of its session, and nothing else is changed [R-473]", async () => {
    const { plain, whole } = await served();
    const slot = whole.subarray(SLOT.offset, SLOT.offset + SLOT.length).toString();
    expect(JSON.parse(slot)).toEqual({ ...CONTACT, session: SESSION, secret: SECRET, network: null });
    const given = whole.subarray(ARGUMENT_SLOT.offset, ARGUMENT_SLOT.offset + ARGUMENT_SLOT.length).toString();
    expect(given).toBe("console=ttyS1,9600 nosmt".padEnd(ARGUMENT_SLOT.length));
    for (const { offset, length } of [SLOT, ARGUMENT_SLOT]) plain.copy(whole, offset, offset, offset + length);
    expect(whole.equals(plain)).toBe(true);
  });

  test.each([
    ["bytes=0-0", 0, 1],
    ["bytes=0-99", 0, 100],
    ["bytes=299990-300010", 299_990, 300_011],
    ["bytes=300100-300200", 300_100, 300_201],
    ["bytes=300500-", 300_500, ISO_BYTES],
    ["bytes=262143-262145", 262_143, 262_146],
    ["bytes=-10", ISO_BYTES - 10, ISO_BYTES],
    ["bytes=-9999999", 0, ISO_BYTES],
    ["bytes=599999-9999999", 599_999, ISO_BYTES],
  ])("the range %s is a part of the same bytes [R-473]", async (range, start, end) => {
    const { url, whole } = await served();
    const response = await fetch(`${url}${ISO}`, { headers: { range } });
    expect(response.status).toBe(206);
    expect(response.headers.get("content-range")).toBe(`bytes ${start}-${end - 1}/${ISO_BYTES}`);
    expect(Buffer.from(await response.arrayBuffer()).equals(whole.subarray(start, end))).toBe(true);
  });

  test.each(["bytes=600000-", "bytes=600000-700000", "bytes=-0"])(
    "the range %s is refused with the size",
    async (range) => {
      const { url } = await served();
      const response = await fetch(`${url}${ISO}`, { headers: { range } });
      expect(response.status).toBe(416);
      expect(response.headers.get("content-range")).toBe(`bytes */${ISO_BYTES}`);
    },
  );

  test.each(["bytes=0-1,5-6", "lines=0-1", "bytes=5-2", "bytes=-", "bytes=a-b"])(
    "the range %s is ignored: the whole file is sent",
    async (range) => {
      const { url } = await served();
      const response = await fetch(`${url}${ISO}`, { headers: { range } });
      expect(response.status).toBe(200);
      expect((await response.arrayBuffer()).byteLength).toBe(ISO_BYTES);
    },
  );

  test("a range of earlier content is ignored, and HEAD returns the headers alone", async () => {
    const { url } = await served();
    const head = await fetch(`${url}${ISO}`, { method: "HEAD" });
    expect(head.headers.get("content-length")).toBe(String(ISO_BYTES));
    expect(head.headers.get("accept-ranges")).toBe("bytes");
    const etag = head.headers.get("etag") ?? "";
    const statusFor = async (condition: string) =>
      (await fetch(`${url}${ISO}`, { headers: { range: "bytes=0-1", "if-range": condition } })).status;
    expect([await statusFor(etag), await statusFor('"other"')]).toEqual([206, 200]);
    const part = await fetch(`${url}${ISO}`, { method: "HEAD", headers: { range: "bytes=0-1" } });
    expect([part.status, part.headers.get("content-length")]).toEqual([206, "2"]);
  });

  test("a wrong secret gets nothing, and neither does a session that has ended [R-473]", async () => {
    let ticket: BootTicket | null = TICKET;
    const { url, folder } = await lab({ medium: async ({ secret }) => (secret === SECRET ? ticket : null) });
    writeMedia(folder);
    expect((await fetch(`${url}/media/${SESSION}.${"x".repeat(43)}/agent.iso`)).status).toBe(404);
    expect((await fetch(`${url}${ISO}`, { method: "HEAD" })).status).toBe(200);
    ticket = null;
    await eventually("refused", async () => (await fetch(`${url}${ISO}`, { method: "HEAD" })).status === 404);
  });

  test("a document that does not fit is a refusal, not a damaged ISO", async () => {
    const { url, folder } = await lab({ medium: async () => ({ ...TICKET, kernelArguments: ["x=".padEnd(70, "y")] }) });
    writeMedia(folder);
    expect((await fetch(`${url}${ISO}`)).status).toBe(503);
  });
});

describe("boot media", () => {
  test("kernel, ramdisk and iPXE's program are served to anyone, with ranges", async () => {
    const { url, folder } = await lab({});
    writeMedia(folder);
    writeFileSync(join(folder, "x64", "ipxe.efi"), "MZ");
    expect((await bytesOf(`${url}/boot/agent/x64/vmlinuz`)).length).toBe(70_000);
    expect((await bytesOf(`${url}/boot/agent/x64/initrd`, { range: "bytes=1-2" })).toString()).toBe("ii");
    expect((await bytesOf(`${url}/boot/agent/x64/ipxe.efi`)).toString()).toBe("MZ");
    for (const path of ["/boot/agent/arm64/vmlinuz", "/boot/agent/arm64/ipxe.efi", "/boot/agent/x64/agent.json"])
      expect((await fetch(`${url}${path}`)).status, path).toBe(404);
  });

  test("a kernel that was sent completely is reported as a milestone of its session; a part or HEAD is not", async () => {
    const reached: string[] = [];
    const { url, folder } = await lab({
      reached: async (session, milestone) => {
        reached.push(`${session} ${milestone}`);
      },
    });
    writeMedia(folder);
    await bytesOf(`${url}${KERNEL}`, { range: "bytes=0-10" });
    await fetch(`${url}${KERNEL}`, { method: "HEAD" });
    await bytesOf(`${url}/boot/agent/x64/vmlinuz?session=x`);
    await bytesOf(`${url}/boot/agent/x64/initrd?session=${SESSION}`);
    await bytesOf(`${url}${KERNEL}`);
    await eventually("reported", () => reached.length > 0);
    expect(reached).toEqual([`${SESSION} KERNEL`]);
  });

  test("boot media that are replaced are served without a restart [R-476]", async () => {
    const { url, folder } = await lab(ONE_SESSION);
    expect((await fetch(`${url}/boot/agent/x64/vmlinuz`)).status).toBe(404);
    writeMedia(folder);
    expect((await fetch(`${url}/boot/agent/x64/vmlinuz`)).status).toBe(200);
    const moved = { offset: 64, length: 256 };
    writeMedia(folder, { slot: moved, argumentSlots: [] });
    const whole = await bytesOf(`${url}${ISO}`);
    expect(JSON.parse(whole.subarray(64, 320).toString())).toMatchObject({ session: SESSION });
    // A new kernel beside the old description.
    writeFileSync(join(folder, "x64", "vmlinuz.new"), "kk");
    renameSync(join(folder, "x64", "vmlinuz.new"), join(folder, "x64", "vmlinuz"));
    expect((await fetch(`${url}/boot/agent/x64/vmlinuz`)).status).toBe(503);
    rmSync(join(folder, "x64"), { recursive: true });
    expect((await fetch(`${url}/boot/agent/x64/vmlinuz`)).status).toBe(404);
  });

  test.each([
    [{ protocol: 1 }, "protocol 1"],
    [{ architecture: "ARM64" }, "for ARM64"],
    [{ slot: { offset: ISO_BYTES - 10, length: 11 } }, "behind the end"],
    [{ slot: null }, "slot is not an object"],
    [{ sizes: { vmlinuz: "70000" } }, "not a number of bytes"],
    [{ sha256s: {} }, "SHA-256"],
  ])("boot media with %j are not served, and the log says why once", async (change, why) => {
    const { url, folder, logged } = await lab({});
    writeMedia(folder, change);
    for (let count = 0; count < 3; count += 1) expect((await fetch(`${url}/boot/agent/x64/vmlinuz`)).status).toBe(404);
    expect(logged().split(why).length).toBe(2);
  });
});

describe("stored images", () => {
  const ID = "2b671a64-40d5-491e-99b0-da01ff1f3341";

  test("a stored image is sent to an agent of an open session, with ranges, and to nothing else", async () => {
    const images = mkdtempSync(join(tmpdir(), "images-"));
    labs.defer(() => rmSync(images, { recursive: true }));
    const path = join(images, "image.raw");
    writeFileSync(path, "0123456789");
    const isOpen: Agents["isOpen"] = async ({ session, secret }) => session === SESSION && secret === SECRET;
    const { url } = await lab({ isOpen }, { storedImage: async (id) => (id === ID ? { path, sizeBytes: 10 } : null) });
    expect((await bytesOf(`${url}/images/${ID}`, { ...BEARER, range: "bytes=4-" })).toString()).toBe("456789");
    renameSync(path, `${path}.other`);
    symlinkSync(`${path}.other`, path);
    expect((await fetch(`${url}/images/${ID}`, { headers: BEARER })).status).toBe(503);
    renameSync(`${path}.other`, path);
    const statusOf = async (id: string, headers: Readonly<Record<string, string>>) =>
      (await fetch(`${url}/images/${id}`, { headers })).status;
    const wrong = { authorization: `Bearer ${SESSION}.${"x".repeat(43)}` };
    expect([await statusOf(ID, {}), await statusOf(ID, wrong), await statusOf(SESSION, BEARER)]).toEqual([
      401, 401, 404,
    ]);
    expect((await fetch(`${url}/images/..%2Fimage.raw`, { headers: BEARER })).status).toBe(404);
  });
});

describe("many and slow clients", () => {
  /** More than the buffers of two sockets take. */
  const LARGE_BYTES = 64 * 1024 * 1024;

  function writeLargeRamdisk(folder: string): void {
    writeMedia(folder, { sizes: { vmlinuz: 70_000, initrd: LARGE_BYTES, "agent.iso": ISO_BYTES } });
    writeFileSync(join(folder, "x64", "initrd"), Buffer.alloc(LARGE_BYTES));
  }

  /** A client that asks for a file and reads nothing of it. */
  async function stalled(url: string, path: string, localAddress = "127.0.0.1") {
    const { hostname, port } = new URL(url);
    const socket = connect({ port: Number(port), host: hostname, localAddress });
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.pause();
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
    return socket;
  }

  test("more downloads than allowed get 503; a download that ends makes room [R-475]", async () => {
    const { url, folder } = await lab({}, { limits: { downloadsPerAddressMax: 2 } });
    writeLargeRamdisk(folder);
    const sockets = [await stalled(url, "/boot/agent/x64/initrd"), await stalled(url, "/boot/agent/x64/initrd")];
    const statusOf = async () => (await fetch(`${url}/boot/agent/x64/vmlinuz`)).status;
    await eventually("refused", async () => (await statusOf()) === 503);
    for (const socket of sockets) socket.destroy();
    await eventually("served again", async () => (await statusOf()) === 200);
  });

  test("a client that reads nothing is cut, with most of its file unread [R-475]", async () => {
    const { url, folder } = await lab({}, { stallMs: 300, limits: { downloadsPerAddressMax: 1 } });
    writeLargeRamdisk(folder);
    const socket = await stalled(url, "/boot/agent/x64/initrd");
    const statusOf = async () => (await fetch(`${url}/boot/agent/x64/vmlinuz`)).status;
    await eventually("it is sent", async () => (await statusOf()) === 503);
    await eventually("it is cut", async () => (await statusOf()) === 200);
    let received = 0;
    socket.on("data", (part: Buffer) => (received += part.length));
    socket.resume();
    await once(socket, "close");
    expect(received).toBeLessThan(LARGE_BYTES / 2);
  });

  test("a client that reads a few bytes now and then is cut too [R-829]", async () => {
    const { url, folder } = await lab({}, { stallMs: 1_000, limits: { downloadsPerAddressMax: 1 } });
    writeLargeRamdisk(folder);
    const socket = await stalled(url, "/boot/agent/x64/initrd");
    const drip = setInterval(() => socket.read(1_000), 50);
    const statusOf = async () => (await fetch(`${url}/boot/agent/x64/vmlinuz`)).status;
    await eventually("it is sent", async () => (await statusOf()) === 503);
    await eventually("it is cut", async () => (await statusOf()) === 200);
    clearInterval(drip);
    expect(socket.bytesRead).toBeLessThan(LARGE_BYTES / 2);
    socket.destroy();
  });

  test("a BMC that reads nothing of its medium for a while keeps it [R-829]", async () => {
    const limits = { downloadsPerAddressMax: 1 };
    const { url, folder } = await lab(ONE_SESSION, { stallMs: 300, limits });
    writeMedia(folder, { sizes: { vmlinuz: 70_000, initrd: LARGE_BYTES, "agent.iso": LARGE_BYTES } });
    for (const name of ["initrd", "agent.iso"]) writeFileSync(join(folder, "x64", name), Buffer.alloc(LARGE_BYTES));
    const medium = await stalled(url, ISO, "127.0.0.2");
    const initrd = await stalled(url, "/boot/agent/x64/initrd");
    const statusOf = async () => (await fetch(`${url}/boot/agent/x64/vmlinuz`)).status;
    await eventually("the other one is sent", async () => (await statusOf()) === 503);
    await eventually("the other one is cut", async () => (await statusOf()) === 200);
    let received = 0;
    medium.on("data", (part: Buffer) => (received += part.length));
    medium.resume();
    await eventually("the medium is whole", () => received > LARGE_BYTES);
    for (const socket of [medium, initrd]) socket.destroy();
  });

  test("addresses with stalled downloads leave a place to another address [R-829]", async () => {
    const { url, folder } = await lab({}, { limits: { downloadsMax: 6, downloadsPerAddressMax: 3 } });
    writeLargeRamdisk(folder);
    const stalledAt = (address: string) => stalled(url, "/boot/agent/x64/initrd", address);
    const sockets = await Promise.all(["2", "2", "2", "3", "3", "3"].map((last) => stalledAt(`127.0.0.${last}`)));
    const initrd = await stalledAt("127.0.0.4");
    await eventually("the download begins", () => initrd.readableLength > 0);
    expect(String(initrd.read())).toMatch(/^HTTP\/1.1 200 /);
    for (const socket of [...sockets, initrd]) socket.destroy();
  });

  test("slow connections of one address, renewed as they are cut, shut no other address out [R-828]", async () => {
    const { url } = await lab({}, { limits: { connectionsMax: 20 } });
    const { hostname, port } = new URL(url);
    let isOver = false;
    const hold = () => {
      if (isOver) return;
      const socket = connect({ port: Number(port), host: hostname, localAddress: "127.0.0.2" });
      open.add(socket);
      socket.write("GET /boot/ipxe HTTP/1.1\r\n");
      socket
        .on("error", () => {})
        .on("close", () => {
          open.delete(socket);
          setImmediate(hold);
        });
    };
    const open = new Set<Socket>();
    for (let count = 0; count < 40; count += 1) hold();
    await eventually("all are taken", () => [...open].filter(({ connecting }) => !connecting).length >= 20);
    const statuses: number[] = [];
    for (let tries = 0; tries < 25; tries += 1) statuses.push((await fetch(`${url}/boot/ipxe`)).status);
    isOver = true;
    for (const socket of open) socket.destroy();
    expect(statuses).toEqual(statuses.map(() => 200));
  });

  test("a listener that shuts down cuts a stalled download", async () => {
    const given = await startLab({});
    writeLargeRamdisk(given.folder);
    const socket = await stalled(given.url, "/boot/agent/x64/initrd");
    await given[Symbol.asyncDispose]();
    socket.resume();
    await once(socket, "close");
    await expect(fetch(given.url)).rejects.toThrow("fetch failed");
  });
});
