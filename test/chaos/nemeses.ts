/**
 * What harms the service, by a schedule that the seed makes: which nemesis, when, to whom and for how long. What really happens
 * depends on the machine's pace as well, so the same seed makes the same plan and not the same run. At any time one replica
 * is left to breathe, and which one changes; only now and then all of them are killed at once.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Chance } from "../durability/lab.ts";
import type { Arena, Replica } from "./arena.ts";
import type { Helper } from "./control.ts";
import type { MachinesCommand, Misbehaviour } from "./machines.ts";
import type { Proxy, Weather } from "./proxy.ts";
import { clock } from "./records.ts";
import type { Nemesis, Recorder } from "./records.ts";
import type { WatchersCommand } from "./watchers.ts";

export interface StormOptions {
  readonly arena: Arena;
  readonly machines: Helper<MachinesCommand>;
  readonly watchers: Helper<WatchersCommand>;
  readonly recorder: Recorder<"nemesis">;
  readonly luck: Chance;
  readonly nemeses: readonly Nemesis["what"][];
  readonly nodes: readonly string[];
  readonly milliseconds: number;
  /** How many there are to be, spread over the time. */
  readonly kills: number;
  readonly databaseRestarts: number;
  /** Whether the storm goes on for a while until there were that many. */
  readonly insists: boolean;
}

export interface StormCount {
  kills: number;
  freezes: number;
  terms: number;
  databaseRestarts: number;
  others: number;
}

type Deed = () => Promise<void>;

const BREATH_MS = [15_000, 40_000] as const;
/** Least time between two kills. */
const LEAST_MS = 300;
/** What a replica is given to do something before it is killed. */
const MOMENT_MS = 1_000;
/** Share of the time that is added when there were not as many kills and restarts as wanted. */
const OVERTIME = 0.3;
const LONG_OUTAGE_MS = 60_000;

/** Runs the storm. When it resolves, everything that was begun has been undone. */
export async function storm(options: StormOptions): Promise<StormCount> {
  const { arena, machines, watchers, recorder, luck, nemeses, nodes, milliseconds } = options;
  const { database, replicas } = arena;
  const count: StormCount = { kills: 0, freezes: 0, terms: 0, databaseRestarts: 0, others: 0 };
  const until = clock() + milliseconds;
  const underWay: Promise<void>[] = [];
  /** Ways that are bad already. */
  const bad = new Set<Proxy>();
  let turn: Promise<void> = Promise.resolve();
  let breather = luck.one(replicas);
  let last = 0;

  const latest = options.insists ? until + milliseconds * OVERTIME : until;
  const isMet = () => count.kills >= options.kills && count.databaseRestarts >= options.databaseRestarts;
  const isOver = () => clock() >= latest || (clock() >= until && isMet());
  const rest = (ms: number) => delay(Math.max(0, Math.min(ms, (clock() < until ? until : latest) - clock())));
  const has = (what: Nemesis["what"]) => nemeses.includes(what);

  /** Writes down the beginning; what it answers writes down the end. */
  function begin(
    what: Nemesis["what"],
    target: string,
    detail: string | null = null,
  ): (detail?: string | null) => void {
    const id = `n${(last += 1)}`;
    recorder.write({ t: clock(), k: "nemesis", id, what, target, phase: "begin", detail });
    return (more = null) => recorder.write({ t: clock(), k: "nemesis", id, what, target, phase: "end", detail: more });
  }

  const victims = () => replicas.filter((one) => one !== breather);

  function kill(one: Replica): void {
    const done = begin("kill", one.name);
    if (one.kill()) count.kills += 1;
    done();
  }

  async function freeze(one: Replica): Promise<void> {
    const ms = luck.weighed([
      [4, luck.whole(1_000, 4_000)],
      [2, luck.whole(8_000, 20_000)],
    ]);
    const pid = one.pid();
    if (!one.freeze()) return;
    count.freezes += 1;
    const done = begin("freeze", one.name, `${ms} ms`);
    await rest(ms);
    if (one.pid() === pid) one.thaw();
    done();
  }

  async function terminate(one: Replica): Promise<void> {
    const done = begin("term", one.name);
    const ended = await one.terminate();
    if (ended) count.terms += 1;
    done(ended && `${Math.round(ended.tookMs)} ms, code ${String(ended.code)}`);
  }

  async function harmReplicas(): Promise<void> {
    const every = milliseconds / Math.max(1, options.kills);
    const began = clock();
    while (!isOver()) {
      // What could not be killed in time, because nothing was up, is made up for.
      await rest(Math.max(LEAST_MS, began + every * (count.kills + luck.next()) - clock()));
      if (isOver()) return;
      if (has("freeze") && luck.often(0.15)) alongside(freeze, victims().filter(isAwake));
      if (has("term") && luck.often(0.06)) alongside(terminate, replicas.filter(isAwake));
      if (has("kill"))
        for (const one of luck.often(0.02) && replicas.every(isAwake) ? replicas : condemned()) kill(one);
    }
  }

  const isAwake = (one: Replica) => one.isReady() && !one.isFrozen() && !one.isLeaving();

  /** Whom the next kill is for: one that has worked for a moment as a rule; at times, while another works, one that has just begun to start, or that is frozen. */
  function condemned(): readonly Replica[] {
    const alive = victims().filter((one) => one.pid() !== null);
    const working = alive.filter((one) => isAwake(one) && one.isReady(MOMENT_MS));
    const some = isAwake(breather) && luck.often(0.1) ? alive : working;
    return some.length > 0 ? [luck.one(some)] : [];
  }

  /** Begins it and goes on; the storm's end waits for it. */
  function alongside(deed: (one: Replica) => Promise<void>, some: readonly Replica[]): void {
    if (some.length > 0) underWay.push(deed(luck.one(some)));
  }

  async function changeBreather(): Promise<void> {
    while (!isOver()) {
      const awake = replicas.filter(isAwake);
      breather = luck.one(awake.length > 0 ? awake : replicas);
      await rest(luck.whole(...BREATH_MS));
    }
  }

  async function harmDatabase(): Promise<void> {
    if (!has("postgres-restart") || options.databaseRestarts === 0) return;
    const every = milliseconds / options.databaseRestarts;
    const began = clock();
    // The long outage, where the storm is long enough, is in its middle.
    const longOne = milliseconds > 5 * LONG_OUTAGE_MS ? Math.floor(options.databaseRestarts / 2) : -1;
    for (let number = 0; number < options.databaseRestarts && !isOver(); number += 1) {
      await rest(began + every * (number + 0.2 + 0.6 * luck.next()) - clock());
      const away =
        number === longOne
          ? LONG_OUTAGE_MS
          : luck.weighed([
              [6, 0],
              [2, luck.whole(500, 3_000)],
              [1, luck.whole(3_000, 8_000)],
            ]);
      await alone(async () => {
        const done = begin("postgres-restart", "postgres", `away for ${away} ms`);
        await database.stop();
        await rest(away);
        await database.start();
        count.databaseRestarts += 1;
        done();
      });
    }
  }

  /** One that ended unexpectedly, as of a full disk, is started again. */
  async function watchDatabase(): Promise<void> {
    for (; !isOver(); await rest(500)) if (!database.isUp()) await alone(() => database.start());
  }

  /** What is done to the database as such is done one after the other. */
  function alone(deed: Deed): Promise<void> {
    const done = turn.then(deed);
    turn = done.catch(() => {});
    return done;
  }

  const deeds: Partial<Record<Nemesis["what"], Deed>> = {
    async backends() {
      const some = luck.whole(1, 12);
      const done = begin("backends", "postgres", `${some} of them`);
      await database.sql`select pg_terminate_backend(pid) from (select pid from pg_stat_activity where application_name = 'ostler' and pid <> pg_backend_pid() order by random() limit ${some}) as victims`.catch(
        () => {},
      );
      done();
    },
    drop: onSomeWay(async (way, target) => {
      const done = begin("drop", target);
      done(`${way.cut()} connections`);
    }),
    delay: onSomeWay(async (way, target) => {
      const delayMs = luck.whole(10, 500);
      const done = begin("delay", target, `${delayMs} ms`);
      await under(way, { delayMs }, luck.whole(3_000, 12_000));
      done();
    }),
    "half-open": onSomeWay(async (way, target) => {
      const dead = luck.one<NonNullable<Weather["dead"]>>([["up", "down"], ["up"], ["down"]]);
      // As a cable that was pulled, or as one that was only loose.
      const isPulled = luck.often(0.5);
      const done = begin("half-open", target, dead.join(" and "));
      await under(way, { dead }, luck.whole(3_000, 25_000), () => isPulled && way.cut());
      done(isPulled ? "cut" : "went on");
    }),
    async clock() {
      const one = luck.one(replicas);
      const seconds = luck.one([-86_400, -3_600, -30, 30, 3_600, 86_400, 30 * 86_400]);
      const done = begin("clock", one.name, `${seconds} s`);
      one.shiftClock(seconds);
      await rest(luck.whole(5_000, 20_000));
      one.shiftClock(0);
      done();
    },
    async "disk-full"() {
      await alone(async () => {
        const done = begin("disk-full", "postgres");
        database.fill(true);
        await rest(luck.whole(3_000, 10_000));
        database.fill(false);
        await database.start();
        done();
      });
    },
    async stall() {
      const done = begin("stall", "watchers");
      await watchers.send({ do: "stall", stalls: true });
      await rest(20_000);
      await watchers.send({ do: "stall", stalls: false });
      done();
    },
    async driver() {
      const how = luck.one<Misbehaviour>(["throw", "junk", "hang", "block", "exit"]);
      const some = luck.some(luck.whole(2, Math.max(5, nodes.length / 10)), nodes);
      const done = begin("driver", some.join(" "), how);
      await machines.send({ do: "possess", nodes: some, how });
      await rest(15_000);
      await machines.send({ do: "possess", nodes: [], how });
      done();
    },
  };
  /** Pause between two of a kind, in milliseconds. */
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

  /** Does it to a way that nothing is done to, if there is one. */
  function onSomeWay(deed: (way: Proxy, target: string) => Promise<void>): Deed {
    return async () => {
      const ways = replicas
        .flatMap(
          ({ name, database: up, clients }) =>
            [
              [up, `${name}/database`],
              [up, `${name}/database`],
              [clients, `${name}/clients`],
            ] as const,
        )
        .filter(([way]) => !bad.has(way));
      if (ways.length === 0) return;
      const [way, target] = luck.one(ways);
      await deed(way, target);
    };
  }

  async function under(way: Proxy, weather: Weather, ms: number, before?: () => unknown): Promise<void> {
    bad.add(way);
    way.set(weather);
    await rest(ms);
    before?.();
    way.set({});
    bad.delete(way);
  }

  async function again(what: Nemesis["what"], deed: Deed): Promise<void> {
    const [least, most] = EVERY[what] ?? [10_000, 30_000];
    for (;;) {
      await rest(luck.whole(Math.min(least, milliseconds / 4), Math.min(most, milliseconds / 2)));
      if (isOver()) return;
      count.others += 1;
      await deed();
    }
  }

  await Promise.all([
    harmReplicas(),
    changeBreather(),
    harmDatabase(),
    watchDatabase(),
    ...Object.entries(deeds)
      .filter(([what]) => has(what as Nemesis["what"]))
      .map(([what, deed]) => again(what as Nemesis["what"], deed)),
  ]);
  await Promise.all(underWay);
  return count;
}
