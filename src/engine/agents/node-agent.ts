/**
 * The agent of a node as a step uses it. Every change is made in one transaction that locks the run and checks that
 * this process still holds it. While the database is unavailable, it is retried until the step's signal fires.
 */
import { createHmac, randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { AgentBootOptions, AgentStatus, AgentTask, NodeAgent } from "../../drivers/driver.ts";
import { unsupported } from "../../drivers/driver-error.ts";
import {
  closeAgentSession,
  newestAgentSession,
  newestSessionOfNode,
  openAgentSession,
  putHomeHash,
  putTask,
} from "../../store/runs/agent-sessions.ts";
import type { AgentSessionRow } from "../../store/runs/agent-sessions.ts";
import { attemptsUnderWay, updateAttempt } from "../../store/runs/attempts.ts";
import { nodesByIds } from "../../store/nodes/nodes.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import { isDatabaseUnavailable } from "../../store/postgres/connection-errors.ts";
import type { TaskIdentity } from "../../store/records.ts";
import type { LockedRun } from "../../store/runs/run-locks.ts";
import { lockRun } from "../../store/runs/run-locks.ts";
import { updateRuns } from "../../store/runs/runs.ts";
import { canonicalJson } from "../../runtime/canonical-json.ts";
import { isRecord, isStorable } from "../../runtime/json-values.ts";
import { FencedError } from "../execution/claim/claimed-run.ts";
import type { AgentEntry } from "../execution/call/driver-call.ts";
import { agentProblem } from "../input/agent-media.ts";
import type { Provisioning } from "../input/agent-media.ts";
import { macOf } from "../../runtime/mac-address.ts";
import type { Transaction } from "../transaction.ts";
import { macOfOtherNode } from "./agent-parts.ts";
import type { AgentParts } from "./agent-parts.ts";
import { hashOfSecret, newSecret } from "./secrets.ts";

const RETRY_MS = 500;
const ARGUMENTS_MAX = 32;
/** A kernel argument has no spaces, and nothing that ends a line of a boot script. */
const ARGUMENT = /^[\x21-\x7e]{1,256}$/;
const NAME = /^[a-z][a-z0-9_]{0,63}$/;
/** Characters of JSON of the arguments of a task. */
const ARGS_LENGTH_MAX = 512 * 1024;

export class StepAgent implements NodeAgent {
  readonly #parts: AgentParts;
  readonly #entry: AgentEntry;
  readonly #signal: AbortSignal;

  constructor(parts: AgentParts, entry: AgentEntry, signal: AbortSignal) {
    this.#parts = parts;
    this.#entry = entry;
    this.#signal = signal;
  }

  async status(): Promise<AgentStatus | null> {
    this.#signal.throwIfAborted();
    const { runId, node } = this.#entry;
    const own = await newestAgentSession(this.#parts.reader, runId);
    if (own) {
      await this.#refuseOtherMachine(this.#parts.reader, own);
      return statusOf(own);
    }
    // A restart of a run that has installed a system waits for the report of that system.
    const earlier = await newestSessionOfNode(this.#parts.reader, node.id);
    return earlier ? statusOf({ ...earlier, endedAt: earlier.endedAt ?? new Date() }) : null;
  }

  async open(options: AgentBootOptions): ReturnType<NodeAgent["open"]> {
    const { url } = this.#provisioningFor(options.architecture);
    const flaw = bootFlaw(options);
    if (flaw !== null) throw new Error(flaw);
    const { medium, architecture, kernelArguments = [], network = null } = options;
    const { node, runId } = this.#entry;
    const id = randomUUID();
    const secret = newSecret();
    await this.#change(async ({ tx }) => {
      const [row] = medium === "NETWORK" ? await nodesByIds(tx, [node.id]) : [];
      if (medium === "NETWORK" && (row?.macs ?? []).length === 0)
        throw unsupported(
          `Node ${node.name} has no MAC address, by which it is known when it boots over the network: give it one with updateNodes, or inspect it.`,
        );
      const secretHash = hashOfSecret(secret);
      await openAgentSession(tx, {
        id,
        nodeId: node.id,
        runId,
        secretHash,
        medium,
        architecture,
        kernelArguments,
        network,
      });
    });
    return {
      mediumUrl: medium === "ISO" ? `${url}/media/${id}.${secret}/agent.iso` : null,
      loaderUrl: `${url}/boot/agent/${architecture.toLowerCase()}/ipxe.efi`,
    };
  }

  async assign({ kind, args }: AgentTask): Promise<void> {
    this.#provisioningFor(null);
    if (typeof kind !== "string" || !NAME.test(kind)) throw new Error(`The task has no valid kind.`);
    if (!isStorable(args) || (JSON.stringify(args) ?? "").length > ARGS_LENGTH_MAX)
      throw new Error(`The arguments of task ${kind} are too large, or have characters that cannot be stored.`);
    const { attempt, step } = this.#entry;
    await this.#change(async ({ tx }, run) => {
      const session = await newestAgentSession(tx, run.id);
      if (session) await this.#refuseOtherMachine(tx, session);
      if (!session || session.endedAt !== null)
        throw new Error("No session of the agent is open. Open one before you assign a task.");
      const { keyring } = this.#parts;
      await keyring.load(tx, [run.callbackKey]);
      const key = createHmac("sha256", keyring.callbackKey(run))
        .update(canonicalJson([attempt.step, attempt.number, kind, args]))
        .digest("base64url");
      if (isUnderWay(session, run, key)) return;
      await reopenEntry(tx, run);
      await putTask(tx, keyring, session.id, {
        id: randomUUID(),
        key,
        kind,
        args: args ?? null,
        step: attempt.step,
        attempt: attempt.number,
        interruptible: step.interruptible,
      });
    });
  }

  async close(): Promise<void> {
    await this.#change(({ tx }, run) => closeAgentSession(tx, run.id));
  }

  async homeUrl(): Promise<string> {
    const { url } = this.#provisioningFor(null);
    const secret = newSecret();
    const id = await this.#change(async ({ tx }, run) => {
      const session = await newestAgentSession(tx, run.id);
      if (!session) throw new Error("The run has no session of the agent, to which the installed system could report.");
      await putHomeHash(tx, session.id, hashOfSecret(secret));
      return session.id;
    });
    return `${url}/home/${id}.${secret}`;
  }

  /**
   * Fails the attempt during which two addresses fetched the boot script, of which one is another machine's, or the
   * agent reported from the machine of another node.
   */
  async #refuseOtherMachine(reader: Reader, { bootAddresses, endedAt, agent }: AgentSessionRow): Promise<void> {
    const { node, attempt } = this.#entry;
    if (endedAt === null || endedAt < attempt.startedAt) return;
    const other = await macOfOtherNode(reader, node.id, agent?.macs ?? []);
    if (other)
      throw unsupported(
        `The agent of node ${node.name} reported from a machine with the MAC address ${other.mac} of node ${other.nodeName}, and none of node ${node.name}: its BMC seems to be that of node ${other.nodeName}. The session was ended, and the machine got no task and no user data. Correct the address of the BMC with updateNodes, or inspect both nodes if network cards were moved, then restart the work.`,
        "OTHER",
      );
    if (bootAddresses.length < 2) return;
    throw unsupported(
      `The boot script of node ${node.name} was fetched from two addresses, ${bootAddresses.join(" and ")}. One of them may be another machine that uses its MAC address, so the session was ended, and gets no further task and no user data. Find out which machine has which address, then restart the work; virtual media, or OSTLER_DHCP_LEASES, prevent this.`,
      "OTHER",
    );
  }

  /** `architecture` null: whatever it is, a session is open. */
  #provisioningFor(architecture: AgentBootOptions["architecture"] | null): Provisioning {
    const { provisioning } = this.#parts;
    const problem = provisioning && architecture === null ? null : agentProblem(provisioning, architecture ?? "X64");
    if (!provisioning || problem !== null) throw unsupported(problem ?? "");
    return provisioning;
  }

  async #change<Result>(work: (transaction: Transaction, run: LockedRun) => Promise<Result>): Promise<Result> {
    const { runId, fence } = this.#entry;
    for (;;) {
      this.#signal.throwIfAborted();
      try {
        return await this.#parts.transact(async (transaction) => {
          const run = await lockRun(transaction.tx, runId);
          if (!run || run.finishedAt !== null || run.fence !== fence) throw new FencedError();
          return work(transaction, run);
        });
      } catch (error) {
        if (!isDatabaseUnavailable(error)) throw error;
        await delay(RETRY_MS, undefined, { signal: this.#signal });
      }
    }
  }
}

/**
 * Whether the task is assigned already. Its result may have come before the step, in a new entry after the end of a
 * wait, assigned it again: then it waits for this entry, which has no other callback.
 */
function isUnderWay({ task, lastTask }: AgentSessionRow, { openGeneration }: LockedRun, key: string): boolean {
  const isSame = (one: TaskIdentity | null) => one?.key === key;
  return isSame(task) || (isSame(lastTask) && openGeneration === null);
}

/**
 * The first contact, or the report of an installed system, may have come in this entry before it assigned a task: then
 * the result of the task takes its place.
 */
async function reopenEntry(tx: Tx, run: LockedRun): Promise<void> {
  if (run.openGeneration !== null) return;
  const attempt = (await attemptsUnderWay(tx, [run.id])).get(run.id);
  if (!attempt || (isRecord(attempt.callback) && "task" in attempt.callback)) return;
  await updateAttempt(tx, attempt, { callback: null });
  await updateRuns(tx, run.id, { openGeneration: run.generation });
}

/** Why a session cannot be opened like this. Arguments become lines of a boot script. */
function bootFlaw({ medium, architecture, kernelArguments = [], network }: AgentBootOptions): string | null {
  if (medium !== "ISO" && medium !== "NETWORK") return "The medium of the agent is neither ISO nor NETWORK.";
  if (architecture !== "X64" && architecture !== "ARM64") return "The architecture is neither X64 nor ARM64.";
  if (kernelArguments.length > ARGUMENTS_MAX || !kernelArguments.every((one) => ARGUMENT.test(one)))
    return `Kernel arguments are at most ${ARGUMENTS_MAX} texts of 1–256 printable characters without spaces.`;
  if (network === undefined) return null;
  const { mac, address, gateway = "", dns = [] } = network;
  const texts = [address, gateway, ...dns];
  return isRecord(network) && macOf(mac) !== null && texts.every((text) => /^[0-9a-fA-F:.%/]{0,64}$/.test(text))
    ? null
    : "The network needs a MAC address, an address with its prefix length, and addresses of gateway and DNS.";
}

function statusOf(session: AgentSessionRow): AgentStatus {
  const { agent, home, strangers } = session;
  const time = (at: Date | null) => at?.toISOString() ?? null;
  return {
    openedAt: session.openedAt.toISOString(),
    dhcpAt: time(session.dhcpAt),
    scriptAt: time(session.scriptAt),
    kernelAt: time(session.kernelAt),
    contactAt: time(session.contactAt),
    seenAt: time(session.seenAt),
    endedAt: time(session.endedAt),
    homeAt: time(session.homeAt),
    home,
    version: agent?.version ?? null,
    architecture: agent?.architecture ?? null,
    bootMode: agent?.bootMode ?? null,
    address: agent?.address ?? null,
    disks: agent?.disks ?? null,
    strangers,
  };
}
