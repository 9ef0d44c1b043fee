/** The machines as nodes of the service: discovered, and given the interfaces that a scenario needs. */
import { eventually } from "../../support/eventually.ts";
import { describeEnd } from "./api.ts";
import type { Api } from "./api.ts";
import { DISK_MIB } from "./machines.ts";
import type { LabMachine } from "./machines.ts";

const DISCOVERY_MS = 60_000;
const COMMISSION_MS = 120_000;

interface Found {
  readonly address: string;
  readonly state: string;
  readonly node: { readonly name: string } | null;
  readonly failure: { readonly message: string } | null;
}

/** Discovers the machines at the addresses of their BMCs, and names the nodes as the lab names the machines. */
export async function discover(api: Api, machines: readonly LabMachine[]): Promise<void> {
  for (const bmc of ["REDFISH", "IPMI"] as const) {
    const chosen = machines.filter((machine) => machine.bmc === bmc);
    if (chosen.length === 0) continue;
    const found = await probe(api, chosen);
    for (const { name, login } of chosen) {
      const result = found.find(({ address }) => address === login.address);
      if (!result?.node)
        throw new Error(`${name} was not found: ${result?.state ?? "-"} ${result?.failure?.message ?? ""}`);
      await api.mutate("updateNodes", { nodes: { names: [result.node.name] }, name }, "changedCount");
    }
  }
}

async function probe(api: Api, machines: readonly LabMachine[]): Promise<readonly Found[]> {
  const [first] = machines;
  if (first === undefined) return [];
  const { username, password, fingerprint, port } = first.login;
  const driver =
    first.bmc === "REDFISH"
      ? { redfish: { username, password, fingerprint } }
      : { ipmi: { username, password, port, cipherSuite: 3 } };
  const addresses = machines.map(({ login }) => login.address);
  const uuid = await api.work("discoverNodes", { addresses, driver, namePrefix: "found-" });
  const query = `query ($id: ID!) { operation(id: $id) { finishedAt discoveries(first: 100) { edges { node { address state node { name } failure { message } } } } } }`;
  return eventually(
    "the discovery ends",
    async () => {
      const { operation } = await api.query<{
        operation: {
          finishedAt: string | null;
          discoveries: { edges: readonly { node: Found }[] };
        };
      }>(query, { id: uuid });
      return operation.finishedAt !== null && operation.discoveries.edges.map(({ node }) => node);
    },
    DISCOVERY_MS,
  );
}

/** Everything by the agent. */
export const WHOLE = ["INSPECT", "CLEAN", "DEPLOY"] as const;
/** Only the deployment, for scenarios about that: the driver `fake` inspects and cleans at once. */
export const DEPLOY_ONLY = ["DEPLOY"] as const;

/** The driver `fake` reports the disk that the agent finds: an erasure by the agent must reach it. */
function fakeOf({ serial }: LabMachine) {
  return { fake: { delayMs: 0, disks: [{ name: "vda", serial: `${serial}-0`, sizeBytes: DISK_MIB * 2 ** 20 }] } };
}

export interface AgentOptions {
  readonly bootTimeoutSeconds?: number;
  /** Settings of the driver that configures what the agent has installed. */
  readonly ansible?: object;
}

export async function giveAgent(
  api: Api,
  machine: LabMachine,
  kinds: readonly string[],
  options: AgentOptions = {},
): Promise<void> {
  const agent = {
    bootMode: machine.firmware,
    boot: machine.bmc === "REDFISH" ? "MEDIA" : "NETWORK",
    bootTimeoutSeconds: options.bootTimeoutSeconds ?? 600,
  };
  const others = ["INSPECT", "CLEAN"].filter((kind) => !kinds.includes(kind));
  const interfaces = [
    { kinds, driver: { agent } },
    ...(options.ansible ? [{ kinds: ["DEPLOY"], driver: { ansible: options.ansible } }] : []),
    ...(others.length > 0 ? [{ kinds: others, driver: fakeOf(machine) }] : []),
  ];
  // An IPMI BMC does not report the MAC by which the machine is known when it boots over the network.
  const own = machine.bmc === "IPMI" ? { driver: { ipmi: { bootMode: machine.firmware } }, macs: [machine.mac] } : {};
  await api.mutate("updateNodes", { nodes: { names: [machine.name] }, interfaces, ...own }, "changedCount");
}

/** Brings nodes to AVAILABLE without starting their machines: the driver `fake` takes all steps. */
export async function makeAvailable(api: Api, machines: readonly LabMachine[]): Promise<void> {
  const states = new Map<string, string>();
  for (const { name } of machines) states.set(name, (await api.node(name)).state);
  const chosen = (wanted: (state: string) => boolean) =>
    machines.filter(({ name }) => wanted(states.get(name) ?? "")).map(({ name }) => name);
  const installed = chosen((state) => state === "ACTIVE");
  const others = chosen((state) => state !== "ACTIVE" && state !== "AVAILABLE");
  for (const machine of machines.filter(({ name }) => [...installed, ...others].includes(name))) {
    const { name } = machine;
    const interfaces = [{ kinds: WHOLE, driver: fakeOf(machine) }];
    await api.mutate("updateNodes", { nodes: { names: [name] }, interfaces }, "changedCount");
  }
  const work = async (verb: string, names: readonly string[], terms: object) => {
    if (names.length === 0) return;
    const ended = await api.end(await api.work(verb, { nodes: { names }, ...terms }), COMMISSION_MS);
    if (ended.state !== "SUCCEEDED") throw new Error(`${verb} has prepared nothing: ${describeEnd(ended)}`);
  };
  await work("undeployNodes", installed, {});
  await work("commissionNodes", others, { until: "AVAILABLE" });
}

/** Brings a node, whatever an earlier scenario has left, to the beginning of a life: ENROLLED or DECOMMISSIONED. */
export async function makeUnused(api: Api, machine: LabMachine): Promise<void> {
  const { name } = machine;
  if (["ENROLLED", "DECOMMISSIONED"].includes((await api.node(name)).state)) return;
  await makeAvailable(api, [machine]);
  const ended = await api.end(await api.work("decommissionNodes", { nodes: { names: [name] } }), COMMISSION_MS);
  if (ended.state !== "SUCCEEDED") throw new Error(`decommissionNodes has prepared nothing: ${describeEnd(ended)}`);
}

/** Switches off the machines that are on: at most two may run at a time. Their nodes keep their states. */
export async function switchOff(api: Api, machines: readonly LabMachine[]): Promise<void> {
  const names = machines.filter(({ vm }) => vm.pid() !== null).map(({ name }) => name);
  if (names.length === 0) return;
  await api.end(await api.work("setPower", { nodes: { names }, action: "OFF" }), COMMISSION_MS);
}
