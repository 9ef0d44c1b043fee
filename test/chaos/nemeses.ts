/**
 * Injects faults by a schedule that the seed determines: kind, time, target and duration. The progress of the service
 * also depends on the machine, so the same seed gives the same plan, but not the same run. At any time one replica is
 * spared, in turn; in rare cases all replicas are killed at the same time.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Chance } from "../durability/lab.ts";
import type { Arena, Replica } from "./arena.ts";
import type { Helper } from "./control.ts";
import type { MachinesCommand, Misbehaviour } from "./machines.ts";
import type { Proxy, Condition } from "./proxy.ts";
import { clock } from "./records.ts";
import type { Nemesis, Recorder } from "./records.ts";
import type { WatchersCommand } from "./watchers.ts";

export interface StormOptions {
  readonly arena: Arena;
  readonly machines: Helper<MachinesCommand>;
  readonly watchers: Helper<WatchersCommand>;
  readonly recorder: Recorder<"nemesis">;
  readonly random: Chance;
  readonly nemeses: readonly Nemesis["what"][];
  readonly nodes: readonly string[];
  readonly milliseconds: number;
  /** Planned number, spread over the time. */
  readonly kills: number;
  readonly databaseRestarts: number;
  /** Whether the storm continues for a while until the planned numbers are reached. */
  readonly extendsUntilMet: boolean;
}

export interface StormCount {
  kills: number;
  freezes: number;
  terms: number;
  databaseRestarts: number;
  others: number;
}

type Action = () => Promise<void>;

const SPARED_MS = [15_000, 40_000] as const;
/** Shortest time between two kills. */
const KILL_PAUSE_MS = 300;
/** Time that a replica runs before it is killed. */
const UPTIME_MS = 1_000;
/** Extension of the storm, as a share of its duration, if kills or restarts are missing. */
const OVERTIME = 0.3;
const LONG_OUTAGE_MS = 60_000;

/** Runs the storm. Resolves when all faults have been undone. */
export async function storm(options: StormOptions): Promise<StormCount> {
  const { arena, machines, watchers, recorder, random, nemeses, nodes, milliseconds } = options;
  const { database, replicas } = arena;
  const count: StormCount = { kills: 0, freezes: 0, terms: 0, databaseRestarts: 0, others: 0 };
  const until = clock() + milliseconds;
  const background: Promise<void>[] = [];
  /** Proxies with a fault in progress. */
  const impaired = new Set<Proxy>();
  let pending: Promise<void> = Promise.resolve();
  let spared = random.one(replicas);
  let last = 0;

  const latest = options.extendsUntilMet ? until + milliseconds * OVERTIME : until;
  const isMet = () => count.kills >= options.kills && count.databaseRestarts >= options.databaseRestarts;
  const isOver = () => clock() >= latest || (clock() >= until && isMet());
  const pause = (ms: number) => delay(Math.max(0, Math.min(ms, (clock() < until ? until : latest) - clock())));
  const has = (what: Nemesis["what"]) => nemeses.includes(what);

  /** Records the beginning of a fault. The returned function records its end. */
  function begin(
    what: Nemesis["what"],
    target: string,
    detail: string | null = null,
  ): (detail?: string | null) => void {
    const id = `n${(last += 1)}`;
    recorder.write({ t: clock(), k: "nemesis", id, what, target, phase: "begin", detail });
    return (more = null) => recorder.write({ t: clock(), k: "nemesis", id, what, target, phase: "end", detail: more });
  }

  const victims = () => replicas.filter((one) => one !== spared);

  function kill(one: Replica): void {
    const done = begin("kill", one.name);
    if (one.kill()) count.kills += 1;
    done();
  }

  async function freeze(one: Replica): Promise<void> {
    const ms = random.weighed([
      [4, random.whole(1_000, 4_000)],
      [2, random.whole(8_000, 20_000)],
    ]);
    const pid = one.pid();
    if (!one.freeze()) return;
    count.freezes += 1;
    const done = begin("freeze", one.name, `${ms} ms`);
    await pause(ms);
    if (one.pid() === pid) one.thaw();
    done();
  }

  async function terminate(one: Replica): Promise<void> {
    const done = begin("term", one.name);
    const ended = await one.terminate();
    if (ended) count.terms += 1;
    done(ended && `${Math.round(ended.tookMs)} ms, code ${String(ended.code)}`);
  }

  async function faultReplicas(): Promise<void> {
    const every = milliseconds / Math.max(1, options.kills);
    const began = clock();
    while (!isOver()) {
      // Kills that were impossible because no replica was running are made up for.
      await pause(Math.max(KILL_PAUSE_MS, began + every * (count.kills + random.next()) - clock()));
      if (isOver()) return;
      if (has("freeze") && random.often(0.15)) inBackground(freeze, victims().filter(isAwake));
      if (has("term") && random.often(0.06)) inBackground(terminate, replicas.filter(isAwake));
      if (has("kill"))
        for (const one of random.often(0.02) && replicas.every(isAwake) ? replicas : killTargets()) kill(one);
    }
  }

  const isAwake = (one: Replica) => one.isReady() && !one.isFrozen() && !one.isTerminating();

  /**
   * Targets of the next kill: usually a replica that has run for a moment; sometimes, while the spared one runs, one
   * that is starting or frozen.
   */
  function killTargets(): readonly Replica[] {
    const alive = victims().filter((one) => one.pid() !== null);
    const working = alive.filter((one) => isAwake(one) && one.isReady(UPTIME_MS));
    const some = isAwake(spared) && random.often(0.1) ? alive : working;
    return some.length > 0 ? [random.one(some)] : [];
  }

  /** Starts an action in the background. The storm waits for it at its end. */
  function inBackground(action: (one: Replica) => Promise<void>, some: readonly Replica[]): void {
    if (some.length > 0) background.push(action(random.one(some)));
  }

  async function changeSpared(): Promise<void> {
    while (!isOver()) {
      const awake = replicas.filter(isAwake);
      spared = random.one(awake.length > 0 ? awake : replicas);
      await pause(random.whole(...SPARED_MS));
    }
  }

  async function restartDatabase(): Promise<void> {
    if (!has("postgres-restart") || options.databaseRestarts === 0) return;
    const every = milliseconds / options.databaseRestarts;
    const began = clock();
    // The long outage is in the middle of a storm that is long enough.
    const longOne = milliseconds > 5 * LONG_OUTAGE_MS ? Math.floor(options.databaseRestarts / 2) : -1;
    for (let number = 0; number < options.databaseRestarts && !isOver(); number += 1) {
      await pause(began + every * (number + 0.2 + 0.6 * random.next()) - clock());
      const downMs =
        number === longOne
          ? LONG_OUTAGE_MS
          : random.weighed([
              [6, 0],
              [2, random.whole(500, 3_000)],
              [1, random.whole(3_000, 8_000)],
            ]);
      await exclusively(async () => {
        const done = begin("postgres-restart", "postgres", `down for ${downMs} ms`);
        await database.stop();
        await pause(downMs);
        await database.start();
        count.databaseRestarts += 1;
        done();
      });
    }
  }

  /** Restarts PostgreSQL if it ended unexpectedly, for example on a full disk. */
  async function watchDatabase(): Promise<void> {
    for (; !isOver(); await pause(500)) if (!database.isUp()) await exclusively(() => database.start());
  }

  /** Faults of the whole database run one after the other. */
  function exclusively(action: Action): Promise<void> {
    const done = pending.then(action);
    pending = done.catch(() => {});
    return done;
  }

  const actions: Partial<Record<Nemesis["what"], Action>> = {
    async backends() {
      const some = random.whole(1, 12);
      const done = begin("backends", "postgres", `${some} connections`);
      await database.sql`select pg_terminate_backend(pid) from (select pid from pg_stat_activity where application_name = 'ostler' and pid <> pg_backend_pid() order by random() limit ${some}) as victims`.catch(
        () => {},
      );
      done();
    },
    drop: onSomeProxy(async (proxy, target) => {
      const done = begin("drop", target);
      done(`${proxy.cut()} connections`);
    }),
    delay: onSomeProxy(async (proxy, target) => {
      const delayMs = random.whole(10, 500);
      const done = begin("delay", target, `${delayMs} ms`);
      await withCondition(proxy, { delayMs }, random.whole(3_000, 12_000));
      done();
    }),
    "half-open": onSomeProxy(async (proxy, target) => {
      const dead = random.one<NonNullable<Condition["dead"]>>([["up", "down"], ["up"], ["down"]]);
      // Like a cable that was pulled, or one that had a loose contact.
      const isPulled = random.often(0.5);
      const done = begin("half-open", target, dead.join(" and "));
      await withCondition(proxy, { dead }, random.whole(3_000, 25_000), () => isPulled && proxy.cut());
      done(isPulled ? "cut" : "resumed");
    }),
    async clock() {
      const one = random.one(replicas);
      const seconds = random.one([-86_400, -3_600, -30, 30, 3_600, 86_400, 30 * 86_400]);
      const done = begin("clock", one.name, `${seconds} s`);
      one.shiftClock(seconds);
      await pause(random.whole(5_000, 20_000));
      one.shiftClock(0);
      done();
    },
    async "disk-full"() {
      await exclusively(async () => {
        const done = begin("disk-full", "postgres");
        database.fill(true);
        await pause(random.whole(3_000, 10_000));
        database.fill(false);
        await database.start();
        done();
      });
    },
    async stall() {
      const done = begin("stall", "watchers");
      await watchers.send({ do: "stall", stalls: true });
      await pause(20_000);
      await watchers.send({ do: "stall", stalls: false });
      done();
    },
    async driver() {
      const how = random.one<Misbehaviour>(["throw", "junk", "hang", "block", "exit"]);
      const some = random.some(random.whole(2, Math.max(5, nodes.length / 10)), nodes);
      const done = begin("driver", some.join(" "), how);
      await machines.send({ do: "misbehave", nodes: some, how });
      await pause(15_000);
      await machines.send({ do: "misbehave", nodes: [], how });
      done();
    },
  };
  /** Shortest and longest pause between two faults of a kind, in milliseconds. */
  const EVERY: Readonly<Partial<Record<Nemesis["what"], readonly [number, number]>>> = {
    backends: [4_000, 15_000],
    drop: [4_000, 20_000],
    delay: [8_000, 30_000],
    "half-open": [10_000, 40_000],
    clock: [5_000, 20_000],
    "disk-full": [60_000, 400_000],
    stall: [5_000, 30_000],
    driver: [2_000, 15_000],
  };

  /** Applies the fault to a proxy without one, if there is one. */
  function onSomeProxy(action: (proxy: Proxy, target: string) => Promise<void>): Action {
    return async () => {
      const proxies = replicas
        .flatMap(
          ({ name, database: up, clients }) =>
            [
              [up, `${name}/database`],
              [up, `${name}/database`],
              [clients, `${name}/clients`],
            ] as const,
        )
        .filter(([proxy]) => !impaired.has(proxy));
      if (proxies.length === 0) return;
      const [proxy, target] = random.one(proxies);
      await action(proxy, target);
    };
  }

  async function withCondition(proxy: Proxy, condition: Condition, ms: number, before?: () => unknown): Promise<void> {
    impaired.add(proxy);
    proxy.set(condition);
    await pause(ms);
    before?.();
    proxy.set({});
    impaired.delete(proxy);
  }

  async function repeat(what: Nemesis["what"], action: Action): Promise<void> {
    const [least, most] = EVERY[what] ?? [10_000, 30_000];
    for (;;) {
      await pause(random.whole(Math.min(least, milliseconds / 4), Math.min(most, milliseconds / 2)));
      if (isOver()) return;
      count.others += 1;
      await action();
    }
  }

  await Promise.all([
    faultReplicas(),
    changeSpared(),
    restartDatabase(),
    watchDatabase(),
    ...Object.entries(actions)
      .filter(([what]) => has(what as Nemesis["what"]))
      .map(([what, action]) => repeat(what as Nemesis["what"], action)),
  ]);
  await Promise.all(background);
  return count;
}
