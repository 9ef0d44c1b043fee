/** `npm run migrate`: brings the database of DATABASE_URL to the newest migration. The service does the same when it starts. */
import { migrateDatabase } from "./database.ts";

const url = process.env["DATABASE_URL"];
if (!url) {
  process.stderr.write("Set DATABASE_URL to the database to migrate; the embedded one is migrated by each start.\n");
  process.exit(1);
}
await migrateDatabase({ url });
process.stdout.write("The database is at the newest migration.\n");
