/** graphql.config.json, by which editors find our schema, documents and service. */
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSchema, parse, validate } from "graphql";
import { expect, test } from "vitest";
import { readConfig } from "../../src/config.ts";

const HOUSE = fileURLToPath(new URL("../..", import.meta.url));

interface ProjectConfig {
  readonly schema: string;
  readonly documents: readonly string[];
  readonly extensions: { readonly endpoints: Readonly<Record<string, { readonly url: string }>> };
}

const config = JSON.parse(readFileSync(`${HOUSE}/graphql.config.json`, "utf8")) as ProjectConfig;
const schema = buildSchema(readFileSync(`${HOUSE}/${config.schema}`, "utf8"));
const documents = globSync([...config.documents], { cwd: HOUSE });

test("it names documents, and each of them fits the schema that it names", () => {
  expect(documents).toContain("test/clients/operations.graphql");
  for (const file of documents)
    expect(validate(schema, parse(readFileSync(`${HOUSE}/${file}`, "utf8"))), file).toEqual([]);
});

test("it names the address at which the service listens unless told otherwise", () => {
  const { host, port } = readConfig({}, []);
  expect(Object.values(config.extensions.endpoints).map(({ url }) => url)).toEqual([`http://${host}:${port}/graphql`]);
});
