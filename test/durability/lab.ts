/**
 * Support for the programs in this folder: random numbers from a seed, and a temporary database. Does not use the test
 * runner; the short forms that run as tests bring their own database.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres from "postgres";
import type { Sql } from "postgres";
import { migrateDatabase } from "../../src/store/postgres/database.ts";
import type { Connection } from "../../src/store/postgres/database.ts";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";

/** A random source that is determined by its seed. */
export interface Chance {
  /** A number from 0 to below 1. */
  next(): number;
  /** A whole number from `from` to `to`, both included. */
  whole(from: number, to: number): number;
  /** True with the given probability. */
  often(share: number): boolean;
  /** One of the values, all equally likely. */
  one<T>(of: readonly T[]): T;
  /** One of the values, with the given weights. */
  weighed<T>(of: readonly (readonly [weight: number, value: T])[]): T;
  /** `count` of the values, in random order. */
  some<T>(count: number, of: readonly T[]): T[];
}

/** Mulberry32: small, and good enough to mix requests with. */
export function chance(seed: number): Chance {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const whole = (from: number, to: number) => from + Math.floor(next() * (to - from + 1));
  const one = <T>(of: readonly T[]): T => {
    if (of.length === 0) throw new Error("There is nothing to choose from.");
    return of[whole(0, of.length - 1)] as T;
  };
  return {
    next,
    whole,
    often: (share) => next() < share,
    one,
    weighed(of) {
      let left = next() * of.reduce((sum, [weight]) => sum + weight, 0);
      const found = of.find(([weight]) => (left -= weight) < 0) ?? of.at(-1);
      if (!found) throw new Error("There is nothing to choose from.");
      return found[1];
    },
    some(count, of) {
      const rest = [...of];
      return Array.from(
        { length: Math.min(count, of.length) },
        () => rest.splice(whole(0, rest.length - 1), 1)[0] as (typeof of)[number],
      );
    },
  };
}

/** A random seed, for a run without a given one. */
export function anySeed(): number {
  return Date.now() % 1_000_000;
}

/** A temporary database with all migrations, and its folder. It is deleted when the script ends. */
export async function openLab(
  options: { readonly tcpPort?: number } = {},
): Promise<{ readonly connection: Connection; readonly folder: string } & AsyncDisposable> {
  const owned = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "ostler-lab-"));
  owned.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  const { connection } = owned.use(await startEmbedded({ folder, durable: false, ...options }));
  await migrateDatabase(connection);
  return { connection, folder, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Plain connections to a database, for queries that the store does not have. */
export function plainSql(connection: Connection, max: number): Sql {
  const options = { max, onnotice: () => {}, max_pipeline: 1e9, connection: { application_name: "proof" } };
  return "url" in connection ? postgres(connection.url, options) : postgres({ ...options, ...connection });
}
