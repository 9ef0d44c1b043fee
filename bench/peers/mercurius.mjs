/** Mercurius on Fastify with its just-in-time compiler, as its documentation recommends for production. */
import Fastify from "fastify";
import mercurius from "mercurius";
import { listening, resolvers, typeDefs } from "./database.mjs";

const app = Fastify({ logger: false });
app.register(mercurius, { schema: typeDefs, resolvers, jit: 1, graphiql: false });
await app.listen({ port: 0, host: "127.0.0.1" });
listening(app.server);
