/** A list of nodes as the database writes it, and as it is resolved: both must be the same, byte for byte. */
import { expect } from "vitest";
import type { ServiceUnderTest } from "./service.ts";

export interface ListWays {
  readonly text: string;
  readonly resolved: string;
  readonly byDatabase: boolean;
}

export interface ListService {
  readonly ostler: ServiceUnderTest;
  /** Texts of the statements so far. */
  readonly statements: string[];
}

/** The response with lists written by the database, and resolved: over a WebSocket, where lists are not text. */
export async function bothWays(
  { ostler, statements }: ListService,
  query: string,
  variables: Record<string, unknown> = {},
): Promise<ListWays> {
  statements.length = 0;
  const { text } = await ostler.ask(query, variables);
  const byDatabase = statements.some((statement) => statement.includes("row_number() over () as ordinal"));
  const client = ostler.client();
  const results: unknown[] = [];
  for await (const result of client.iterate({ query, variables })) results.push(result);
  await client.dispose();
  return {
    text: JSON.stringify(JSON.parse(text)) === text ? text : `not as JSON.stringify writes it: ${text}`,
    resolved: JSON.stringify(results[0]),
    byDatabase,
  };
}

/** Returns the text. */
export async function expectSame(
  service: ListService,
  query: string,
  { variables = {}, byDatabase = true }: { variables?: Record<string, unknown>; byDatabase?: boolean } = {},
): Promise<string> {
  const both = await bothWays(service, query, variables);
  const shown = `${query} ${JSON.stringify(variables)}`;
  expect(both.text, shown).toBe(both.resolved);
  expect(both.byDatabase, shown).toBe(byDatabase);
  return both.text;
}
