/** `npm run schema`: writes schema.graphql anew; with `--check` says whether it is fresh. */
import { readFileSync, writeFileSync } from "node:fs";
import { buildSchema, schemaText } from "./schema.ts";

const file = new URL("../../schema.graphql", import.meta.url);
const text = schemaText(buildSchema());
if (!process.argv.includes("--check")) writeFileSync(file, text);
else if (readFileSync(file, "utf8") !== text) {
  process.stderr.write("schema.graphql is not what the code prints; run `npm run schema` and commit it.\n");
  process.exitCode = 1;
}
