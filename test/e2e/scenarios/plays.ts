/** A machine that the agent installs, and a play then configures over SSH, with the key of the variables. */
import { readFileSync } from "node:fs";
import { describeEnd } from "../lab/api.ts";
import type { Lab } from "../lab/lab.ts";
import { DEPLOY_ONLY, giveAgent, makeAvailable } from "../lab/nodes.ts";
import { USER, overSsh } from "../lab/ssh.ts";

const INSTALL_MS = 1_500_000;
const ERASE_MS = 600_000;

export async function configuresOverSsh(lab: Lab): Promise<void> {
  const { api, report, key } = lab;
  const machine = lab.machine("e2e-redfish-1");
  const { name, address } = machine;
  await makeAvailable(api, [machine]);
  const privateKey = readFileSync(key.file, "utf8");
  await giveAgent(api, machine, DEPLOY_ONLY, {
    ansible: { address, username: USER, privateKey, hostKey: "FIRST_USE" },
  });
  const uuid = await api.work("deployNodes", {
    nodes: { names: [name] },
    image: { name: "good" },
    variables: { ssh_keys: [key.publicKey], greeting: "hello {{ 7 * 6 }}" },
  });
  const ended = await api.end(uuid, INSTALL_MS);
  const { state } = await api.node(name);
  report.check(`${name} is installed by the agent and configured by a play`, state === "ACTIVE", describeEnd(ended));
  if (state !== "ACTIVE") throw new Error("The next checks need an installed system.");
  const greeting = (await overSsh(key, address, "cat greeting")).trim();
  report.check(`the play has written its variable to ${name}`, greeting === "hello {{ 7 * 6 }}", greeting);
  const removed = await api.end(await api.work("undeployNodes", { nodes: { names: [name] } }), ERASE_MS);
  const steps = await api.stepsOf(removed.uuid);
  report.check(
    `a play removes the configuration of ${name} before the agent erases its disk`,
    removed.state === "SUCCEEDED" && steps[0] === "unconfigure",
    `${describeEnd(removed)}; ${steps.join()}`,
  );
}
