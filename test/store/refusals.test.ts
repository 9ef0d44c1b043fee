/**
 * Constraints of the database, independent of the code: it rejects a state without its transition, and an edge that is
 * not in the table.
 */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import type { Sql } from "postgres";
import { testDatabase } from "../support/database.ts";

const database = await testDatabase();
afterAll(() => database[Symbol.asyncDispose]());
const { sql } = database;

interface Change {
  readonly id: string;
  readonly from: string | null;
  readonly event: string;
  readonly to: string | null;
  readonly sequence: number;
}

async function writeTransition(tx: Sql, { id, from, event, to, sequence }: Change): Promise<void> {
  await tx`with drawn as (update feed_position set position = position + 1 returning position)
    insert into transitions (position, node_id, node_name, project, from_state, to_state, event, sequence, node_revision, actor, at)
    select position, ${id}, 'x', 'default', ${from}, ${to}, ${event}, ${sequence}, 1, 'test', now() from drawn`;
}

async function insert(tx: Sql, id: string, state = "ENROLLED", count = 1): Promise<void> {
  await tx`insert into nodes (id, name, project, state, driver, borrowed, settings, labels, transition_count)
    values (${id}, ${`n-${id}`}, 'default', ${state}, 'fake', '{}', '{}', '{}', ${count})`;
}

/** A valid node: inserted with its transition. */
async function aNode(): Promise<string> {
  const id = randomUUID();
  await inTransaction(async (tx) => {
    await insert(tx, id);
    await writeTransition(tx, { id, from: null, event: "register", to: "ENROLLED", sequence: 1 });
  });
  return id;
}

const inTransaction = (work: (tx: Sql) => Promise<void>) => sql.begin((tx) => work(tx as unknown as Sql));
const stateOf = async (id: string) =>
  (await sql`select state from nodes where id = ${id}`)[0]?.["state"] as string | undefined;

describe("database constraints of nodes", () => {
  test("database rejects a change of state along no edge, even with its transition [R-001]", async () => {
    const id = await aNode();
    const leap = inTransaction(async (tx) => {
      await tx`update nodes set state = 'ACTIVE', transition_count = 2 where id = ${id}`;
      await writeTransition(tx, { id, from: "ENROLLED", event: "done", to: "ACTIVE", sequence: 2 });
    });
    await expect(leap).rejects.toThrow("illegal transition: no edge leads from ENROLLED to ACTIVE");
    expect(await stateOf(id)).toBe("ENROLLED");
  });

  test("database rejects a legal change of state without its transition [R-004]", async () => {
    const id = await aNode();
    await expect(sql`update nodes set state = 'VERIFYING', transition_count = 2 where id = ${id}`).rejects.toThrow(
      "became VERIFYING without a transition",
    );
    expect(await stateOf(id)).toBe("ENROLLED");
  });

  test("database rejects a change of state without a new sequence number, and a new number without a change", async () => {
    const id = await aNode();
    await expect(sql`update nodes set state = 'VERIFYING' where id = ${id}`).rejects.toThrow("illegal transition");
    await expect(sql`update nodes set transition_count = 7 where id = ${id}`).rejects.toThrow("illegal transition");
    await expect(sql`update nodes set transition_count = 2 where id = ${id}`).rejects.toThrow("without a transition");
  });

  test("database rejects a change of state with the transition of another change [R-004]", async () => {
    const id = await aNode();
    const lie = inTransaction(async (tx) => {
      await tx`update nodes set state = 'VERIFYING', transition_count = 2 where id = ${id}`;
      await writeTransition(tx, { id, from: "ENROLLED", event: "retire", to: "DECOMMISSIONED", sequence: 2 });
    });
    await expect(lie).rejects.toThrow("became VERIFYING without a transition");
  });

  test("database rejects a node that is not ENROLLED first, or that has no transition", async () => {
    await expect(insert(sql, randomUUID(), "ACTIVE")).rejects.toThrow("registered ENROLLED, not ACTIVE");
    await expect(insert(sql, randomUUID(), "ENROLLED", 5)).rejects.toThrow("illegal transition");
    await expect(insert(sql, randomUUID())).rejects.toThrow("became ENROLLED without a transition");
  });

  test("database rejects the deletion of a node without its transition", async () => {
    const id = await aNode();
    await expect(sql`delete from nodes where id = ${id}`).rejects.toThrow("was deleted without a transition");
    expect(await stateOf(id)).toBe("ENROLLED");
    await inTransaction(async (tx) => {
      await tx`delete from nodes where id = ${id}`;
      await writeTransition(tx, { id, from: "ENROLLED", event: "delete", to: null, sequence: 2 });
    });
    expect(await stateOf(id)).toBeUndefined();
  });

  test.each<Omit<Change, "id"> & { what: string }>([
    { what: "along no edge", from: "ENROLLED", event: "deploy", to: "DEPLOYING", sequence: 2 },
    { what: "by an event that leads elsewhere", from: "ENROLLED", event: "verify", to: "ACTIVE", sequence: 2 },
    { what: "without a first state", from: null, event: "verify", to: "VERIFYING", sequence: 2 },
    { what: "without a next state", from: "ENROLLED", event: "verify", to: null, sequence: 2 },
    { what: "with a taken sequence number", from: "ENROLLED", event: "verify", to: "VERIFYING", sequence: 1 },
  ])("database rejects a transition $what", async (change) => {
    const id = await aNode();
    await expect(writeTransition(sql, { id, ...change })).rejects.toThrow(
      /violates (foreign key|check|unique) constraint|duplicate key value/,
    );
  });

  test("database rejects an update of a transition", async () => {
    const id = await aNode();
    await expect(sql`update transitions set actor = 'other' where node_id = ${id}`).rejects.toThrow(
      "transitions are append only",
    );
    expect(await sql`select actor from transitions where node_id = ${id}`).toEqual([{ actor: "test" }]);
  });

  test("database rejects two nodes with the same name", async () => {
    const id = await aNode();
    const [row] = await sql`select name from nodes where id = ${id}`;
    const other = await aNode();
    await expect(sql`update nodes set name = ${row?.["name"] as string} where id = ${other}`).rejects.toThrow(
      "duplicate key value",
    );
  });
});

describe("database constraints of runs", async () => {
  const operation = randomUUID();
  await sql`insert into plans (hash, plan) values ('p', '{}')`;
  await sql`insert into operations (id, kind, state, project, actor, options, on_failure, variables, total_count) values (${operation}, 'DEPLOY', 'RUNNING', 'default', 'test', '{}', 'LEAVE', '{}', 1)`;
  const run = (nodeId: string, state = "RUNNING", finished = false) =>
    sql`insert into runs (id, operation_id, node_id, node_name, ordinal, state, plan_hash, variables, target, moves_state, finished_at)
      values (${randomUUID()}, ${operation}, ${nodeId}, 'x', 0, ${state}, 'p', '{}', 'ACTIVE', true, ${finished ? new Date() : null})`;

  test("database rejects a second unfinished run of a node, in any state [R-046]", async () => {
    const node = randomUUID();
    await run(node, "QUEUED");
    await run(node, "SUCCEEDED", true);
    for (const state of ["QUEUED", "RUNNING", "WAITING", "HOLDING"])
      await expect(run(node, state)).rejects.toThrow("runs_one_unfinished");
  });

  test("database rejects an end without a final state, and a final state without an end", async () => {
    await expect(run(randomUUID(), "RUNNING", true)).rejects.toThrow("runs_finished");
    await expect(run(randomUUID(), "FAILED")).rejects.toThrow("runs_finished");
  });
});
