/** Apollo Server directly on node:http, without a framework. */
import { createServer } from "node:http";
import { ApolloServer, HeaderMap } from "@apollo/server";
import { listening, resolvers, typeDefs } from "./database.mjs";

const apollo = new ApolloServer({ typeDefs, resolvers, introspection: false });
await apollo.start();

async function serve(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const headers = new HeaderMap();
  for (const [name, value] of Object.entries(request.headers)) headers.set(name, String(value));
  const answer = await apollo.executeHTTPGraphQLRequest({
    httpGraphQLRequest: {
      method: "POST",
      headers,
      search: "",
      body: JSON.parse(Buffer.concat(chunks).toString("utf8")),
    },
    context: async () => ({}),
  });
  response.writeHead(answer.status ?? 200, Object.fromEntries(answer.headers));
  if (answer.body.kind === "complete") response.end(answer.body.string);
  else response.destroy();
}

const server = createServer((request, response) => {
  serve(request, response).catch((error) => response.writeHead(500).end(String(error)));
});
server.listen(0, "127.0.0.1", () => listening(server));
