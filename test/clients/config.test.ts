/** graphql.config.json shows editors the schema, the documents and the service. */
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSchema, parse, validate } from "graphql";
import { expect, test } from "vitest";
import { readConfig } from "../../src/config/config.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

interface ProjectConfig {
  readonly schema: string;
  readonly documents: readonly string[];
  readonly extensions: { readonly endpoints: Readonly<Record<string, { readonly url: string }>> };
}

const config = JSON.parse(readFileSync(`${ROOT}/graphql.config.json`, "utf8")) as ProjectConfig;
const schema = buildSchema(readFileSync(`${ROOT}/${config.schema}`, "utf8"));
const documents = globSync([...config.documents], { cwd: ROOT });

test("documents in graphql.config.json are valid for its schema", () => {
  expect(documents).toContain("test/clients/operations.graphql");
  for (const file of documents)
    expect(validate(schema, parse(readFileSync(`${ROOT}/${file}`, "utf8"))), file).toEqual([]);
});

test("endpoint in graphql.config.json is the default address of the service", () => {
  const { host, port } = readConfig({}, []);
  expect(Object.values(config.extensions.endpoints).map(({ url }) => url)).toEqual([`http://${host}:${port}/graphql`]);
});
