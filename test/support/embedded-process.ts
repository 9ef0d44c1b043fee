/**
 * A process that owns an embedded database, to be killed. Started with the folder as its argument. Prints a line of
 * JSON when the database runs (`{ postmaster }`), and one for each row whose commit was acknowledged (`{ row }`); where
 * it is refused, one with the reason (`{ refused }`).
 */
import postgres from "postgres";
import { messageOf } from "../../src/errors.ts";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";

const say = (what: unknown) => process.stdout.write(`${JSON.stringify(what)}\n`);

try {
  const embedded = await startEmbedded({ folder: process.argv[2] ?? "" });
  const { connection } = embedded;
  if ("url" in connection) throw new Error("The embedded database is reached by its socket.");
  const sql = postgres({ ...connection, max: 4, onnotice: () => {} });
  await sql`create table if not exists rows (id int primary key)`;
  say({ postmaster: embedded.pid });
  let next = 0;
  const write = async () => {
    for (;;) {
      const row = (next += 1);
      await sql`insert into rows values (${row})`;
      say({ row });
    }
  };
  await Promise.all([write(), write(), write(), write()]);
} catch (error) {
  say({ refused: messageOf(error) });
}
