/** How a page that was refused asks the service, which answers as a test says. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";

const asked = { session: 0, viewer: 0 };
let session: object = { session: null, isOpen: false };
let viewer: () => Response = () => refusal();
const refusal = () => Response.json({ errors: [{ message: "Wrong token.", extensions: { code: "UNAUTHENTICATED" } }] });
const accepted = (scope: string | null) => () => Response.json({ data: { viewer: { scope } } });

const stored = new Map([["ostler-token", "of-otto"]]);
vi.stubGlobal("sessionStorage", {
  getItem: (key: string) => stored.get(key) ?? null,
  setItem: (key: string, value: string) => void stored.set(key, value),
});
const page = Object.assign(new EventTarget(), { hidden: false });
vi.stubGlobal("document", page);
vi.stubGlobal("fetch", async (path: string) => {
  asked[path === "/auth/session" ? "session" : "viewer"] += 1;
  return path === "/auth/session" ? Response.json(session) : viewer();
});
const { awaitRights, noteLive } = await import("../../packages/console/src/data/await-rights.ts");
const { authorization, entries, signedOut } = await import("../../packages/console/src/data/session.ts");

let end = () => {};
beforeEach(() => {
  vi.useFakeTimers();
  Object.assign(asked, { session: 0, viewer: 0 });
  viewer = refusal;
  signedOut.set("Wrong token.");
  noteLive();
  end = awaitRights();
});
afterEach(() => {
  end();
  vi.useRealTimers();
});

test("a page that is refused asks after pauses that double up to ten minutes", async () => {
  await vi.advanceTimersByTimeAsync(16_500);
  expect(asked.viewer).toBe(5);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(asked.viewer).toBeLessThan(18);
  expect(signedOut.get()).toBe("Wrong token.");
});

test("the pauses go on growing when the page is let in and refused again, without being live", async () => {
  const before = entries.get();
  viewer = accepted("READ");
  for (let round = 0; round < 5; round += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
    if (signedOut.get() !== null) continue;
    signedOut.set("Wrong token.");
    end();
    end = awaitRights();
  }
  expect(entries.get() - before).toBeLessThanOrEqual(3);
});

test("it is let in when the service accepts it, and then asks no more", async () => {
  const before = entries.get();
  viewer = accepted("READ");
  await vi.advanceTimersByTimeAsync(1_500);
  expect([signedOut.get(), entries.get() - before]).toEqual([null, 1]);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(asked.viewer).toBe(1);
});

test("a caller without a role is not let in", async () => {
  viewer = accepted(null);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(signedOut.get()).toBe("Wrong token.");
});

test("a person who comes back to the page is not kept waiting, and one who leaves is not asked for", async () => {
  await vi.advanceTimersByTimeAsync(40_000);
  const { viewer: before } = asked;
  page.hidden = true;
  page.dispatchEvent(new Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(0);
  expect(asked.viewer).toBe(before);
  page.hidden = false;
  page.dispatchEvent(new Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(0);
  expect(asked.viewer).toBe(before + 1);
});

test("a person who comes back several times at once does not make it ask more often", async () => {
  for (let times = 0; times < 3; times += 1) page.dispatchEvent(new Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(0);
  const { viewer: before } = asked;
  await vi.advanceTimersByTimeAsync(100_000);
  expect(asked.viewer - before).toBeLessThan(7);
});

test("after its end it asks nothing", async () => {
  end();
  await vi.advanceTimersByTimeAsync(3_600_000);
  page.dispatchEvent(new Event("visibilitychange"));
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toEqual({ session: 0, viewer: 0 });
});

// Last: it changes the credentials.
test("a session takes the place of a token that was refused, and without both nothing is asked for", async () => {
  session = { session: {}, isOpen: false };
  await vi.advanceTimersByTimeAsync(1_500);
  expect(authorization()).toEqual({});
  session = { session: null, isOpen: false };
  const { viewer: before } = asked;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.viewer).toBe(before);
  expect(asked.session).toBeGreaterThan(2);
});
