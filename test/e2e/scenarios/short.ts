/** One machine with UEFI and virtual media: installed, called home, logged in to, undeployed. */
import { describeEnd } from "../lab/api.ts";
import type { Lab } from "../lab/lab.ts";
import { DEPLOY_ONLY, giveAgent, makeAvailable } from "../lab/nodes.ts";
import { overSsh } from "../lab/ssh.ts";
import { checkEmptyDisk } from "./life.ts";

const INSTALL_MS = 900_000;
const ERASE_MS = 300_000;

export async function installOne(lab: Lab): Promise<void> {
  const { api, report, key } = lab;
  const machine = lab.machine("e2e-redfish-1");
  const { name } = machine;
  await makeAvailable(api, [machine]);
  await giveAgent(api, machine, DEPLOY_ONLY);
  const began = performance.now();
  const uuid = await api.work("deployNodes", {
    nodes: { names: [name] },
    image: { name: "good" },
    variables: { ssh_keys: [key.publicKey] },
  });
  const ended = await api.end(uuid, INSTALL_MS);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const { state } = await api.node(name);
  report.check(`${name} is installed and has called home`, state === "ACTIVE", `${seconds} s, ${describeEnd(ended)}`);
  if (state !== "ACTIVE") throw new Error("The next checks need an installed system.");
  const hostName = (await overSsh(key, machine.address, "hostname")).trim();
  report.check(`the key that was given logs in to ${name} over SSH`, hostName === name, hostName);
  const erased = await api.end(await api.work("undeployNodes", { nodes: { names: [name] } }), ERASE_MS);
  report.check(`${name} is undeployed`, (await api.node(name)).state === "AVAILABLE", describeEnd(erased));
  await checkEmptyDisk(lab, machine);
}
