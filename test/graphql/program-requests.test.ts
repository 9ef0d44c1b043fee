/** Requests of programs that no fast test runs: benchmarks, fault tests, the end-to-end test and the examples. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, validate } from "graphql";
import { expect, test } from "vitest";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { VERB_NAMES, documentOf } from "../chaos/verbs.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PROGRAMS = [
  "bench/*.ts",
  "test/{chaos,clients,durability,e2e,hardware,replicas}/**/*.ts",
  "examples/**/*.{ts,tsx,py}",
];
/** A request that is written whole in one text. */
const WHOLE = /(["'`])\s*((?:mutation|query|subscription)\b(?:(?!\1)[^$]|\$(?!\{))*\})\s*\1/g;

const schema = buildSchema(await describeDrivers());

function flawsOf(text: string): readonly string[] {
  return validate(schema, parse(text)).map(({ message }) => message);
}

test("requests of programs are valid", () => {
  const requests = globSync(PROGRAMS, {
    cwd: ROOT,
    exclude: ["**/node_modules/**", "examples/*/generated/**", "test/clients/projects/**"],
  }).flatMap((file) =>
    [...readFileSync(join(ROOT, file), "utf8").matchAll(WHOLE)].map(([, , text = ""]) => ({ file, text })),
  );
  expect(requests.length).toBeGreaterThan(50);
  expect(requests.flatMap(({ file, text }) => flawsOf(text).map((flaw) => `${file}: ${flaw}`))).toEqual([]);
});

test("documents of the example for front ends are valid", () => {
  const text = readFileSync(join(ROOT, "examples/fleet-table/src/documents.graphql"), "utf8");
  expect(flawsOf(text)).toEqual([]);
});

test.each(VERB_NAMES)("%s of a chaos run is valid", (verb) => {
  expect(flawsOf(documentOf(verb))).toEqual([]);
});
