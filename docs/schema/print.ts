/** `npm run schema`: writes the files that follow from the schema; with `--check`, fails if they are out of date. */
import { readFileSync, writeFileSync } from "node:fs";
import { describeDrivers } from "../../src/drivers/load.ts";
import { clientFilterText } from "./client-filter.ts";
import { possibleTypesText } from "./possible-types.ts";
import { cliRequestsText, requestsText } from "./requests.ts";
import type { Requests } from "./requests.ts";
import { buildSchema, schemaText } from "../../src/graphql/schema/schema.ts";

const schema = buildSchema(await describeDrivers());
const requestsIn = (file: string): Requests => ({
  file,
  text: readFileSync(new URL(`../../${file}`, import.meta.url), "utf8"),
});
const printed = {
  "schema.graphql": schemaText(schema),
  "possibleTypes.json": possibleTypesText(schema),
  "packages/client/src/node-filter.ts": clientFilterText(schema),
  "packages/cli/src/requests.ts": cliRequestsText(schema, requestsIn("packages/cli/requests.graphql")),
  "packages/console/requests.ts": requestsText(schema, requestsIn("packages/console/requests.graphql")),
};

for (const [name, text] of Object.entries(printed)) {
  const file = new URL(`../../${name}`, import.meta.url);
  if (!process.argv.includes("--check")) writeFileSync(file, text);
  else if (readFileSync(file, "utf8") !== text) {
    process.stderr.write(`${name} is out of date; run \`npm run schema\` and commit it.\n`);
    process.exitCode = 1;
  }
}
