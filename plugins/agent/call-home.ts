/** The deploy step that ends when the installed system has called home. */
import * as z from "zod";
import type { Json, StepResult } from "../../src/drivers/driver.ts";
import { startFromDisk } from "./boot-from-disk.ts";
import type { AgentCall, AgentStep } from "./call.ts";
import { isOver, secondsFromNow } from "./call.ts";

/** The report ends the wait; a report that came while no step waited is found by looking. */
const LOOK_SECONDS = 30;
/** After a restart no report ends the wait: it belongs to the run that has installed the system. */
const LOOK_AFTER_RESTART_SECONDS = 5;

const memoSchema = z.object({ until: z.string(), seconds: z.number() });

export const awaitCallHome: AgentStep = {
  name: "await_call_home",
  title: "Wait until the installed system has called home",
  phase: "deploy",
  priority: 20,
  interruptible: "ALWAYS",
  timeoutSeconds: 5 * 3600,
  idempotent: true,
  touches: [],
  run,
};

async function run(call: AgentCall): Promise<StepResult> {
  const { image, node, settings } = call;
  // Checked before anything was written: the node does not require it.
  if (image !== null && !image.callsHome) return { kind: "done", output: { calledHome: false } };
  const status = await call.agent.status();
  const report = status?.homeAt != null ? status.home : reportIn(call.callback);
  if (report !== undefined)
    return { kind: "done", output: { calledHome: true, at: status?.homeAt ?? null, ...systemOf(report) } };
  const memo = memoSchema.safeParse(call.memo).data;
  const { until, seconds } = memo ?? (await begin(call));
  if (isOver(until))
    return {
      kind: "failed",
      reason: `The system of image ${image?.name ?? "(none)"} on node ${node.name} did not call home within ${settings.callHomeTimeoutSeconds} s. Look at the machine's console: check that it starts from its disk, that cloud-init runs, and that it reaches OSTLER_PROVISION_URL. User data with a phone_home of its own replaces the one that reports here.`,
      retryable: false,
      errorKind: "TIMEOUT",
    };
  call.progress(50, "the machine starts from its disk");
  return { kind: "wait", callback: true, seconds, memo: { until, seconds } };
}

/** After an abort and a restart the machine is off. */
async function begin(call: AgentCall): Promise<z.output<typeof memoSchema>> {
  const isOff = (await call.power.read()) === "OFF";
  if (isOff) await startFromDisk(call);
  const until = secondsFromNow(call.settings.callHomeTimeoutSeconds);
  return { until, seconds: isOff ? LOOK_AFTER_RESTART_SECONDS : LOOK_SECONDS };
}

/** The report in a callback; undefined if it is none. */
function reportIn(callback: Json): Json | undefined {
  if (typeof callback !== "object" || callback === null || Array.isArray(callback)) return undefined;
  return (callback as Readonly<Record<string, Json>>)["home"];
}

const TEXT_LENGTH_MAX = 1024;
const text = z.string().trim().min(1).max(TEXT_LENGTH_MAX).optional().catch(undefined);
const reportSchema = z.object({
  hostname: text,
  fqdn: text,
  instance_id: text,
  pub_key_ed25519: text,
  pub_key_ecdsa: text,
  pub_key_rsa: text,
});

/** Names of the system, and its public host keys, as it reports them. cloud-init reports what it lacks as "N/A". */
function systemOf(report: Json): Readonly<Record<string, Json>> {
  const parsed = reportSchema.safeParse(report).data;
  if (!parsed) return {};
  const known = (value: string | undefined) => (value === "N/A" ? undefined : value);
  const hostName = known(parsed.fqdn) ?? known(parsed.hostname);
  const instanceId = known(parsed.instance_id);
  const hostKeys = [parsed.pub_key_ed25519, parsed.pub_key_ecdsa, parsed.pub_key_rsa].flatMap(
    (key) => known(key) ?? [],
  );
  return {
    ...(hostName !== undefined && { hostName }),
    ...(instanceId !== undefined && { instanceId }),
    hostKeys,
  };
}
