/** Faults of machines, network and image servers: each is a clear failure of one node, and of no other. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describeEnd } from "../lab/api.ts";
import type { Operation } from "../lab/api.ts";
import type { Lab } from "../lab/lab.ts";
import { DEPLOY_ONLY, giveAgent } from "../lab/nodes.ts";
import { setCable } from "../lab/network.ts";
import { deploy, prepareForDeployment } from "./interrupts.ts";

const BOOT_MS = 600_000;
const FAULT_MS = 1_200_000;
const OTHERS = ["e2e-redfish-2", "e2e-ipmi-2"] as const;

/** Images with a fault, and the code of the agent that the failure must have. */
const IMAGE_FAULTS = [
  { image: "wrong-sum", code: "CHECKSUM_MISMATCH" },
  { image: "large", code: "IMAGE_TOO_LARGE" },
  { image: "cut", code: "IMAGE_CUT" },
  { image: "stall", code: "IMAGE_STALLED" },
  { image: "loop", code: "IMAGE_UNREACHABLE" },
] as const;

/** Two at a time, each on its own node; the others are idle, and must stay as they are. */
export async function failsOnBadImages(lab: Lab): Promise<void> {
  const names = ["e2e-redfish-1", "e2e-redfish-2"];
  await prepareForDeployment(lab, ...names);
  const queue = [...IMAGE_FAULTS];
  const worker = async (name: string) => {
    for (let fault = queue.shift(); fault !== undefined; fault = queue.shift()) {
      const { image, code } = fault;
      const began = performance.now();
      const ended = await lab.api.end(await deploy(lab, [name], image), FAULT_MS);
      await checkFailure(lab, { what: `image ${image}`, name, ended, began, pattern: new RegExp(code) });
    }
  };
  await Promise.all(names.map(worker));
}

interface Expected {
  readonly what: string;
  readonly name: string;
  readonly ended: Operation;
  readonly began: number;
  /** Text of the expected failure. */
  readonly pattern: RegExp;
}

async function checkFailure({ api, report }: Lab, { what, name, ended, began, pattern }: Expected): Promise<void> {
  const failure = ended.runs.find(({ nodeName }) => nodeName === name)?.failure;
  const { state } = await api.node(name);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  report.check(
    `${what}: ${name} is DEPLOY_FAILED with a failure that says ${pattern.source}`,
    state === "DEPLOY_FAILED" && failure != null && pattern.test(`${failure.code} ${failure.message}`),
    `${seconds} s, ${state}, ${describeEnd(ended)}`,
  );
}

async function statesOf({ api }: Lab, names: readonly string[]): Promise<string> {
  return (await Promise.all(names.map(async (name) => `${name} ${(await api.node(name)).state}`))).join();
}

/** The other nodes keep their states while one fails. */
async function alone(lab: Lab, names: readonly string[], fail: () => Promise<void>): Promise<void> {
  const before = await statesOf(lab, names);
  await fail();
  const after = await statesOf(lab, names);
  lab.report.check("no other node changes its state", before === after, after);
}

export async function failsOnDiskErrors(lab: Lab): Promise<void> {
  const [machine] = await prepareForDeployment(lab, "e2e-redfish-1");
  if (machine === undefined) return;
  const rules = join(lab.folder, "disk-errors.conf");
  // Every write that reaches the sector at 100 MiB fails.
  writeFileSync(rules, '[inject-error]\nevent = "write_aio"\nerrno = "5"\nsector = "204800"\n');
  machine.setDiskErrors(rules);
  try {
    await alone(lab, OTHERS, async () => {
      const began = performance.now();
      const ended = await lab.api.end(await deploy(lab, [machine.name], "good"), FAULT_MS);
      await checkFailure(lab, { what: "a disk error", name: machine.name, ended, began, pattern: /WRITE_FAILED/ });
    });
  } finally {
    machine.setDiskErrors(null);
  }
}

export async function failsWithoutCable(lab: Lab): Promise<void> {
  const [machine] = await prepareForDeployment(lab, "e2e-redfish-1");
  if (machine === undefined) return;
  await giveAgent(lab.api, machine, DEPLOY_ONLY, { bootTimeoutSeconds: 120 });
  await alone(lab, OTHERS, async () => {
    const uuid = await deploy(lab, [machine.name], "slow");
    await lab.api.working(uuid, machine.name, "write_image", 5, BOOT_MS);
    const began = performance.now();
    await setCable(machine.number, "down");
    try {
      const ended = await lab.api.end(uuid, FAULT_MS);
      const pattern = /was last seen|made no contact/;
      await checkFailure(lab, { what: "a cut cable", name: machine.name, ended, began, pattern });
    } finally {
      await setCable(machine.number, "up");
    }
  });
}

export async function survivesDeadMachine(lab: Lab): Promise<void> {
  const { api, report } = lab;
  const [machine] = await prepareForDeployment(lab, "e2e-redfish-1");
  if (machine === undefined) return;
  await alone(lab, OTHERS, async () => {
    const uuid = await deploy(lab, [machine.name], "slow");
    await api.working(uuid, machine.name, "write_image", 5, BOOT_MS);
    const pid = machine.vm.pid();
    if (pid === null) throw new Error(`${machine.name} is off.`);
    const began = performance.now();
    const starts = machine.starts.length;
    process.kill(pid, "SIGKILL");
    const ended = await api.end(uuid, FAULT_MS);
    const { state } = await api.node(machine.name);
    report.check(
      "a machine that dies while writing: it is noticed, and the retry boots the agent again and installs it",
      state === "ACTIVE" && machine.starts.length > starts,
      `${((performance.now() - began) / 1000).toFixed(1)} s, ${state}, ${describeEnd(ended)}`,
    );
  });
}
