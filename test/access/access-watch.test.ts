/** Watchers of the access of callers are called when it changes, and cost little when that of others does. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ANONYMOUS } from "../../src/access/access.ts";
import type { Actor } from "../../src/access/access.ts";
import { AccessWatch } from "../../src/access/access-watch.ts";
import type { Present } from "../../src/access/access-watch.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const LONG_ENOUGH_MS = 500;

function callerOf(id: string, more: Partial<Actor> = {}): Actor {
  const identity = { ...ANONYMOUS, kind: "API_TOKEN", id, subject: `account:${id}` } as const;
  const { subject } = identity;
  const access = { scope: "READ", roles: ["viewer"], expiresAt: null } as const;
  return { ...access, subject, displayName: null, groups: [], project: "default", identity, ...more };
}

/** A watch whose rules are a map from the ids of credentials; others have what they had. */
function watchUnderTest() {
  const rules = new Map<string, Present>();
  const judged: string[] = [];
  const watch = new AccessWatch((actor) => {
    judged.push(actor.identity.id);
    return rules.get(actor.identity.id) ?? actor;
  });
  const called: string[] = [];
  const follow = (actor: Actor, name = actor.identity.id) =>
    watch.add(actor, (present) => called.push(`${name} ${"rejected" in present ? present.rejected : present.scope}`));
  const change = (id: string, present: Present) => {
    rules.set(id, present);
    watch.changed();
  };
  return { watch, judged, called, follow, change };
}

describe("watch of access", () => {
  test("all that began with an access are called once when it changes, and those of others are not [R-970]", async () => {
    const { called, follow, change } = watchUnderTest();
    follow(callerOf("a"), "a1");
    follow(callerOf("a"), "a2");
    follow(callerOf("b"));
    await vi.advanceTimersByTimeAsync(LONG_ENOUGH_MS);
    change("a", callerOf("a", { scope: "OPERATE", roles: ["operator"] }));
    await vi.advanceTimersByTimeAsync(LONG_ENOUGH_MS);
    change("a", { rejected: "ENDED", message: "" });
    await vi.advanceTimersByTimeAsync(LONG_ENOUGH_MS);
    expect(called).toEqual(["a1 OPERATE", "a2 OPERATE"]);
  });

  test("one that begins after its access has changed is called without a further change [R-970]", async () => {
    const { called, follow, change } = watchUnderTest();
    change("a", { rejected: "ENDED", message: "" });
    await vi.advanceTimersByTimeAsync(LONG_ENOUGH_MS);
    follow(callerOf("a"));
    await vi.advanceTimersByTimeAsync(LONG_ENOUGH_MS);
    expect(called).toEqual(["a ENDED"]);
  });

  test("an access that expires between two changes is judged at its time [R-971]", async () => {
    const { called, judged, follow, change } = watchUnderTest();
    const caller = callerOf("a", { expiresAt: new Date(Date.now() + 60_000) });
    follow(caller);
    await vi.advanceTimersByTimeAsync(59_900);
    expect(judged).toEqual(["a"]);
    change("a", { rejected: "ENDED", message: "" });
    await vi.advanceTimersByTimeAsync(LONG_ENOUGH_MS);
    expect(called).toEqual(["a ENDED"]);
  });

  test("1,000 changes a minute judge each access four times a second at most, however many watch it [R-974]", async () => {
    const { judged, called, follow, change } = watchUnderTest();
    for (let index = 0; index < 5_000; index += 1) follow(callerOf(`caller-${index % 50}`));
    for (let index = 0; index < 1_000; index += 1) {
      change("stranger", callerOf("stranger"));
      await vi.advanceTimersByTimeAsync(60);
    }
    expect(judged.length).toBeGreaterThan(50);
    expect(judged.length).toBeLessThanOrEqual(50 * 60 * 4);
    expect(called).toEqual([]);
  });

  test("nothing is looked at when nothing watches", () => {
    const { follow } = watchUnderTest();
    const leave = [follow(callerOf("a")), follow(callerOf("b"))];
    expect(vi.getTimerCount()).toBe(1);
    for (const one of leave) one();
    expect(vi.getTimerCount()).toBe(0);
  });

  test("of thousands that are called, those that leave meanwhile are not", async () => {
    const { called, follow, change } = watchUnderTest();
    const leave = Array.from({ length: 1_000 }, (_, index) => follow(callerOf("a"), String(index)));
    change("a", { rejected: "ENDED", message: "" });
    vi.advanceTimersByTime(LONG_ENOUGH_MS);
    expect(called.length).toBeLessThan(1_000);
    const before = called.length;
    for (const one of leave) one();
    vi.useRealTimers();
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    expect(called).toHaveLength(before);
  });
});
