/** The demonstration itself, started by demo.ts within namespaces of its own. */
import { readFileSync } from "node:fs";
import { once } from "node:events";
import { createConnection, createServer } from "node:net";
import { join } from "node:path";
import { startLab } from "./lab/lab.ts";
import type { Lab } from "./lab/lab.ts";
import { WHOLE, discover, giveAgent } from "./lab/nodes.ts";
import { createReport, keepReporting } from "./lab/report.ts";
import { sshWords } from "./lab/ssh.ts";
import { interruption } from "./namespace.ts";
import type { Artifacts } from "./prepare.ts";

interface Order {
  readonly folder: string;
  readonly port: number;
  readonly artifacts: Artifacts;
}

const { folder, port, artifacts } = JSON.parse(process.argv[2] ?? "{}") as Order;
const parts = new AsyncDisposableStack();

/** Passes connections of the outside on to the service. */
async function offer(): Promise<void> {
  const server = createServer((client) => {
    const service = createConnection(port, "127.0.0.1");
    const end = () => {
      client.destroy();
      service.destroy();
    };
    for (const side of [client, service]) side.on("error", end).on("close", end);
    client.pipe(service).pipe(client);
  });
  server.listen(join(folder, "service.sock"));
  await once(server, "listening");
  parts.defer(() => void server.close());
}

function instructions({ machines, key }: Lab): string {
  const [first] = machines;
  const name = first?.name ?? "";
  const pid = readFileSync(join(folder, "pid"), "utf8");
  const ssh = ["nsenter", `--net=/proc/${pid}/ns/net`, "ssh", ...sshWords(key.file, first?.address ?? "")].join(" ");
  return `
GraphiQL: http://127.0.0.1:${port}/graphql

Machines: ${machines.map((machine) => `${machine.name} (${machine.firmware}, ${machine.bmc})`).join(", ")}
Consoles: tail -f ${join(folder, "machines")}/bmc*/console.log

Install one (about three minutes; at most two machines at a time):

  mutation {
    commissionNodes(input: {
      nodes: { names: ["${name}"] }
      image: { name: "good" }
      variables: { ssh_keys: ["${key.publicKey}"] }
    }) { operation { uuid } errors { code message } }
  }

Watch it in another tab of GraphiQL:

  subscription { nodeTransitions(snapshot: true) { __typename ... on Transition { nodeName from to at } } }

Log in to it when it is ACTIVE, as root in another terminal:

  ${ssh}

See the step and its progress:

  { node(by: { name: "${name}" }) { state currentRun { currentStep { title progressPercent progressMessage } } } }

Remove the system, which erases the disk:

  mutation { undeployNodes(input: { nodes: { names: ["${name}"] } }) { operation { uuid } errors { code message } } }

Ctrl-C ends everything.
`;
}

async function main(): Promise<void> {
  using _ = keepReporting("starting the machines and the service");
  const lab = await startLab({ folder, artifacts, report: createReport(), port, withService: true }, parts);
  await discover(lab.api, lab.machines);
  for (const machine of lab.machines) await giveAgent(lab.api, machine, WHOLE);
  await offer();
  console.log(instructions(lab));
}

let code = 0;
try {
  const interrupted = interruption();
  await Promise.race([main(), interrupted]);
  await interrupted;
} catch (error) {
  const isWanted = error instanceof Error && error.message === "interrupted";
  if (!isWanted) {
    console.error(error instanceof Error ? error.message : error);
    code = 1;
  }
}
await parts.disposeAsync();
process.exit(code);
