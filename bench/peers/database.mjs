/** Shared by all peers: a hand-written resolver for the rows, and the message with the port. */
import postgres from "postgres";

const sql = postgres(process.env.DATABASE_URL, { max: 10, onnotice: () => {} });

/** The schema of Mercurius and Apollo Server: the part of Ostler's schema that the benchmark queries. */
export const typeDefs = `
  scalar DateTime
  type Node { uuid: ID! name: String! state: String! stage: String! powerState: String! presence: String! hostGroup: String revision: Int! createdAt: DateTime! updatedAt: DateTime! }
  type NodeEdge { node: Node! }
  type NodeConnection { edges: [NodeEdge!]! }
  type Query { nodes(first: Int!): NodeConnection! }
`;

export const resolvers = {
  Query: {
    async nodes(_root, { first }) {
      const rows = await sql`
        select id as uuid, name, state, stage, power_state as "powerState", presence, host_group as "hostGroup", revision, created_at as "createdAt", updated_at as "updatedAt"
        from nodes order by name limit ${first}`;
      return { edges: rows.map((node) => ({ node })) };
    },
  },
};

/** Sends the port to the benchmark. */
export function listening(server) {
  process.send({ port: server.address().port });
}
