/** The steps: each is one run of ansible-playbook on its node, except the check that the system lets the driver in. */
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Json, Step, StepCall, StepResult } from "../../src/drivers/driver.ts";
import { AnsibleError, failed } from "./failure.ts";
import { inventoryOf } from "./facts.ts";
import { runPlay } from "./play.ts";
import type { Play, Project } from "./project.ts";
import type { AnsibleSettings } from "./settings.ts";
import { firstUseFile, logIn } from "./ssh.ts";

type AnsibleCall = StepCall<AnsibleSettings>;
type AnsibleStep = Step<AnsibleSettings>;

const OWN = dirname(fileURLToPath(import.meta.url));
/** Limit of the output of a step, in characters of JSON, below that of the engine. */
const OUTPUT_MAX = 200_000;
/** A machine with many interfaces and mounts has hundreds of kilobytes of facts. */
const FACTS_MAX = 4_000_000;
const LOOK_SECONDS = 5;
/** How long a system that was just installed may take until it lets the driver in. */
const SYSTEM_SECONDS = 300;

/** A step that runs a play of the project. */
export function playStep(
  { folder }: Project,
  { playbook, ...declared }: Play,
  step: Pick<AnsibleStep, "name" | "title" | "phase" | "priority">,
): AnsibleStep {
  return {
    ...step,
    ...declared,
    retries: { times: 2, backoffSeconds: 10 },
    run: (call) => asResult(() => runPlay(call, { playbook: join(folder, playbook), folder, outputMax: OUTPUT_MAX })),
  };
}

export const gatherFacts: AnsibleStep = {
  name: "gather_facts",
  title: "Collect the facts of the system",
  phase: "inspect",
  priority: 10,
  interruptible: "ALWAYS",
  timeoutSeconds: 300,
  idempotent: true,
  touches: [],
  retries: { times: 2, backoffSeconds: 10 },
  run: (call) =>
    asResult(async () =>
      inventoryOf(await runPlay(call, { playbook: join(OWN, "facts.yml"), folder: OWN, outputMax: FACTS_MAX })),
    ),
};

/** Waits until the system lets the driver in. A node with this driver alone has a system, which this step finds. */
export const checkSystem: AnsibleStep = {
  name: "check_system",
  title: "Check that the system runs and accepts the login",
  phase: "deploy",
  priority: 10,
  interruptible: "ALWAYS",
  timeoutSeconds: SYSTEM_SECONDS + 60,
  idempotent: true,
  reaches: "PROVISIONED",
  touches: [],
  run: checkLogin,
};

async function checkLogin(call: AnsibleCall): Promise<StepResult> {
  const until = typeof call.memo === "number" ? call.memo : Date.now() + SYSTEM_SECONDS * 1000;
  const known = firstUseFile(call.node.id);
  // A system that this request has installed has another key.
  if (call.memo === null && call.image !== null) rmSync(known, { force: true });
  try {
    const { hostKeys: _, ...machine } = await logIn(call, known);
    return { kind: "done", output: { ...machine } };
  } catch (error) {
    const isStarting = error instanceof AnsibleError && error.kind === "UNREACHABLE" && Date.now() < until;
    if (!isStarting) return failed(error);
    call.progress(0, error.message);
    return { kind: "wait", seconds: LOOK_SECONDS, memo: until };
  }
}

/** Ends a step with its output, or with the reason of its failure. The reason of a signal is thrown. */
async function asResult(work: () => Promise<Json>): Promise<StepResult> {
  try {
    return { kind: "done", output: await work() };
  } catch (error) {
    return failed(error);
  }
}
