/**
 * The baselines of subject `lists`: minimal servers on node:http that list nodes. `rows` reads the rows and stringifies
 * them; `text` has PostgreSQL build the JSON and passes it on.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import postgres from "postgres";

const sql = postgres(process.env["DATABASE_URL"] ?? "", { max: 10, onnotice: () => {} });

async function fromRows(first: number): Promise<string> {
  const rows = await sql`
    select id as uuid, name, state, stage, power_state as "powerState", presence, host_group as "hostGroup", revision, created_at as "createdAt", updated_at as "updatedAt"
    from nodes order by name limit ${first}`;
  return JSON.stringify({ data: { nodes: { edges: rows.map((node) => ({ node })) } } });
}

async function fromText(first: number): Promise<string> {
  const [row] = await sql`
    select json_build_object('data', json_build_object('nodes', json_build_object('edges', json_agg(json_build_object('node', json_build_object(
      'uuid', id, 'name', name, 'state', state, 'stage', stage, 'powerState', power_state, 'presence', presence, 'hostGroup', host_group, 'revision', revision, 'createdAt', created_at, 'updatedAt', updated_at))))))::text as json
    from (select * from nodes order by name limit ${first}) page`;
  return String(row?.["json"]);
}

const answer = process.argv[2] === "text" ? fromText : fromRows;

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => void chunks.push(chunk));
  request.on("end", () => {
    const { variables } = JSON.parse(Buffer.concat(chunks).toString("utf8")) as { variables: { first: number } };
    answer(variables.first).then(
      (json) => response.writeHead(200, { "content-type": "application/json; charset=utf-8" }).end(json),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
});
server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as AddressInfo).port }));
