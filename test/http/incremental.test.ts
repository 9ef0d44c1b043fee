/** Incremental delivery, which is not offered (decision 0043), and the reason. */
import * as graphql from "graphql";
import { createYoga } from "graphql-yoga";
import { afterAll, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

test.each([
  ["defer", "{ service { version } ... @defer { nodes { totalCount } } }"],
  ["stream", "{ nodes { nodes @stream { name } } }"],
])("a request with @%s is refused before its execution [R-643]", async (directive, query) => {
  const { errors } = await ostler.ask(query);
  expect(errors).toMatchObject([
    { message: `Unknown directive "@${directive}".`, extensions: { code: "GRAPHQL_VALIDATION_FAILED" } },
  ]);
});

test("Yoga does not understand the incremental results of graphql-js; if it does, decide 0043 again", async () => {
  const Query = new graphql.GraphQLObjectType({
    name: "Query",
    fields: { a: { type: graphql.GraphQLString, resolve: () => "a" } },
  });
  const yoga = createYoga({
    schema: new graphql.GraphQLSchema({
      query: Query,
      directives: [...graphql.specifiedDirectives, graphql.GraphQLDeferDirective],
    }),
    logging: false,
    plugins: [
      {
        onExecute({ setExecuteFn }: { setExecuteFn(execute: typeof graphql.experimentalExecuteIncrementally): void }) {
          setExecuteFn(graphql.experimentalExecuteIncrementally);
        },
      },
    ],
  });
  const response = await yoga.fetch("http://localhost/graphql", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "multipart/mixed, application/json" },
    body: JSON.stringify({ query: "{ a ... @defer { b: a } }" }),
  });
  expect(await response.json()).toHaveProperty("initialResult");
});
