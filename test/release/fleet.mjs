/**
 * Runs in a project of a user, within the checked system, with nothing but the package ostler-client and its peers:
 * requests a verb on the demonstration fleet of a service, follows all nodes until each has worked and is ACTIVE, and
 * prints how. `node fleet.mjs URL TOKEN commissionNodes [ARGUMENTS]`; without a verb all must be ACTIVE already.
 */
import { parse } from "graphql";
import { connect, watchNodes } from "ostler-client";

const [url = "", token = "", verb, more = ""] = process.argv.slice(2);
const NODES = 20;
const LIMIT_MS = 300_000;

async function request() {
  for (const cluster of ["berlin", "oslo"]) {
    const input = `{ nodes: { cluster: { name: "${cluster}" } } ${more} }`;
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ query: `mutation { ${verb}(input: ${input}) { errors { code message } } }` }),
    });
    const { data, errors = data[verb].errors } = await response.json();
    if (errors.length > 0) throw new Error(JSON.stringify(errors));
  }
  console.log("accepted");
}

const connection = connect({ url, token: () => token });
let breaks = 0;
connection.subscribe(() => {
  if (connection.getSnapshot().state === "broken") breaks += 1;
});
const states = new Map();
const worked = new Set();
let changes = 0;
let isDone = false;
const row = parse("fragment Row on Node { name state }");
for await (const item of watchNodes(connection, row, { signal: AbortSignal.timeout(LIMIT_MS) })) {
  if (item.kind === "begin") states.clear();
  if (item.kind === "complete" && changes === 0 && verb !== undefined) await request();
  if (item.kind !== "node") continue;
  const { id, state } = item.node;
  if (item.changed !== null) changes += 1;
  if (state !== "ACTIVE" || verb === undefined) worked.add(id);
  states.set(id, state);
  isDone = worked.size === NODES && [...states.values()].every((one) => one === "ACTIVE");
  if (isDone) break;
}
console.log(JSON.stringify({ nodes: states.size, worked: worked.size, changes, breaks }));
process.exit(isDone ? 0 : 1);
