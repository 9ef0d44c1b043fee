/** A machine with two disks, of which the firmware prefers the empty one: it starts the installed one all the same. */
import { readFileSync } from "node:fs";
import { describeEnd } from "../lab/api.ts";
import type { Lab } from "../lab/lab.ts";
import { switchOff } from "../lab/nodes.ts";
import { newDisk, virtio } from "./erasure.ts";
import { deploy, prepareForDeployment } from "./interrupts.ts";

const INSTALL_MS = 900_000;
/** The firmware prints which entry it loads, or could not load. */
const ATTEMPT = /BdsDxe: (loading|failed to load) \S+ "([^"]*)"/g;

export async function startsItsEntry(lab: Lab): Promise<void> {
  const { api, report, key } = lab;
  const [machine] = await prepareForDeployment(lab, "e2e-redfish-1");
  if (machine === undefined) return;
  const { name, serial } = machine;
  try {
    machine.setExtra(virtio("preferred", newDisk(machine, "preferred"), "", ",bootindex=0"));
    const variables = { ssh_keys: [key.publicKey], root_disk: { serial: `${serial}-0` } };
    const ended = await api.end(await deploy(lab, [name], "good", { variables }), INSTALL_MS);
    const { state } = await api.node(name);
    report.check(`${name} with two disks is installed, and has called home`, state === "ACTIVE", describeEnd(ended));
    if (state !== "ACTIVE") return;
    const console = readFileSync(machine.vm.files.console, "latin1");
    const attempts = [...console.matchAll(ATTEMPT)].map(([, how, entry]) => `${how} ${entry}`);
    const [before = "", last = ""] = attempts.slice(-2);
    const isOwn = last === "loading Ostler" && /^loading .*DVD/.test(before);
    report.check("after the agent's, its firmware has tried its own entry alone", isOwn, `${before}, ${last}`);
  } finally {
    await switchOff(api, [machine]);
    machine.setExtra([]);
  }
}
