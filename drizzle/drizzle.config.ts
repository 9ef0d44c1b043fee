/** Where `npm run tool -- migration` finds the tables and puts a new migration. */
import { defineConfig } from "drizzle-kit";

export default defineConfig({ dialect: "postgresql", schema: "./src/store/tables.ts", out: "./drizzle" });
