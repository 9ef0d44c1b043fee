/**
 * Empties a database that a test has used, so that it is as its template again: the rows of the template, sequences at
 * their start, no statistics. If anything else has changed, the database is not used again.
 */
import type { Sql } from "postgres";

/** A statement that empties a database, and the state in which it is then as the template. */
export interface Restoration {
  /** Restores the rows and the sequences. */
  readonly restore: string;
  /** The answer of `STATE` after that. */
  readonly state: string;
}

/** Rows are deleted, not truncated: a larger table is slower to read than one of a new clone. */
const TABLE_BYTES_MAX = 4_000_000;

/**
 * Changes that `restore` does not undo: of the schema, which the event trigger counts, of settings of the database, and
 * statistics, by which plans are chosen.
 */
const STATE = `
  select jsonb_build_array(
    (select count(*) from spare.changes),
    (select count(*) from pg_db_role_setting where setdatabase = (select oid from pg_database where datname = current_database())),
    (select count(*) from pg_statistic where starelid >= 16384),
    (select sum(reltuples) from pg_class where oid >= 16384),
    (select count(*) from pg_class where oid >= 16384 and relkind = 'r' and pg_table_size(oid) > ${TABLE_BYTES_MAX})
  )::text as state`;

/** To be called once the template has its tables and rows. Counts every later change of the schema in it. */
export async function prepareTemplate(sql: Sql): Promise<Restoration> {
  await sql.unsafe(`
    create schema spare;
    create table spare.changes (tag text);
    create function spare.note() returns event_trigger language plpgsql security definer as
      $$ begin insert into spare.changes values (tg_tag); end $$;
    create event trigger spare_note on ddl_command_end execute function spare.note()`);
  const restore = await restoration(sql);
  const [row] = await sql.unsafe(STATE);
  return { restore, state: String(row?.["state"]) };
}

/** Restores the rows of a database, and returns whether it is as the template. */
export async function restored(sql: Sql, { restore, state }: Restoration): Promise<boolean> {
  try {
    await sql.unsafe(restore);
    const [row] = await sql.unsafe(STATE);
    return row?.["state"] === state;
  } catch {
    // A table has another name, or the test has closed the connection.
    return false;
  }
}

async function restoration(sql: Sql): Promise<string> {
  const tables = await sql<{ name: string; isRoot: boolean }[]>`
    select format('%I.%I', nspname, relname) as name, relkind = 'p' as "isRoot"
    from pg_class c join pg_namespace n on n.oid = relnamespace
    where relkind in ('r', 'p') and nspname = 'public'`;
  const emptied: string[] = [];
  const steps: string[] = [];
  for (const { name, isRoot } of tables) {
    // The rows of a partitioned table are in its partitions.
    if (isRoot) continue;
    const [row] = await sql.unsafe(
      `select jsonb_agg(t)::text as rows, md5(string_agg(t::text, ' ' order by t::text)) as sum from ${name} t`,
    );
    const { rows, sum } = row as unknown as { readonly rows: string | null; readonly sum: string | null };
    if (rows === null) emptied.push(name);
    else
      steps.push(
        `if (select md5(string_agg(t::text, ' ' order by t::text)) from ${name} t) is distinct from '${sum}' then
             delete from ${name};
             insert into ${name} select * from jsonb_populate_recordset(null::${name}, $rows$${rows}$rows$);
           end if;`,
      );
  }
  const sequences = await sql<{ name: string; value: string | null }[]>`
    select format('%I.%I', schemaname, sequencename) as name, last_value as value from pg_sequences`;
  for (const { name, value } of sequences) steps.push(`perform setval('${name}', ${value ?? 1}, ${value !== null});`);
  // No trigger fires: those of the change log would fill it, others refuse the deletion. A test writes to a few tables;
  // to plan a deletion from all of them would cost more than the rest.
  return `
    reset all;
    do $restore$
    declare written text;
    begin
      set local session_replication_role = replica;
      set local lock_timeout = '2s';
      foreach written in array '{${emptied.join(",")}}'::text[] loop
        if pg_relation_size(written::regclass) > 0 then execute 'delete from ' || written; end if;
      end loop;
      ${steps.join("\n      ")}
    end $restore$`;
}
