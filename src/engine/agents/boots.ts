/** The boot of the agent, and the report of the installed system. */
import type { StoredJson } from "../../store/records.ts";
import {
  agentSessionById,
  newestSessionOfNode,
  noteKernel,
  noteLease,
  noteMedium,
  noteScript,
  putHome,
  sessionToBoot,
} from "../../store/runs/agent-sessions.ts";
import type { AgentSessionRow } from "../../store/runs/agent-sessions.ts";
import { lockRun } from "../../store/runs/run-locks.ts";
import { isStorable } from "../../runtime/json-values.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { deliverCallback } from "../execution/boundary/callback.ts";
import { macOf } from "../../runtime/mac-address.ts";
import { authenticated } from "./agent-parts.ts";
import type { AgentParts } from "./agent-parts.ts";
import type { Bearer, BootTicket, BootingMachine } from "./agents.ts";
import { hashOfSecret, isSecret, newSecret } from "./secrets.ts";

const MACS_MAX = 64;

export async function networkBoot(
  { reader, transact, log }: AgentParts,
  { macs, address, isLeased }: BootingMachine,
): Promise<BootTicket | null> {
  const known = macs.slice(0, MACS_MAX).flatMap((mac) => macOf(mac) ?? []);
  const found = await sessionToBoot(reader, known);
  if (!found) return null;
  const { id, runId } = found;
  const secret = newSecret();
  return transact(async (transaction) => {
    const { tx } = transaction;
    const run = await lockRun(tx, runId);
    const session = await noteScript(tx, id, { address, isLeased, secretHash: hashOfSecret(secret) });
    // The agent has come, or the session was closed, since it was read.
    if (!session) return null;
    if (session.endedAt === null) return ticketOf(session, secret);
    // The step is entered, and finds the reason.
    if (run?.finishedAt === null) await deliverCallback(transaction, run, { contact: true });
    const addresses = session.bootAddresses;
    transaction.afterCommit(() =>
      log.warn({ runId, session: id, addresses }, "an agent session was ended: two addresses fetched its boot script"),
    );
    return null;
  });
}

export async function medium(parts: AgentParts, bearer: Bearer): Promise<BootTicket | null> {
  const view = await authenticated(parts, bearer);
  if (!view || view.isOver || view.session.medium !== "ISO") return null;
  const { session } = view;
  if (session.scriptAt === null) await parts.transact(({ tx }) => noteMedium(tx, session.id));
  return ticketOf(session, bearer.secret);
}

export async function isOpen(parts: Pick<AgentParts, "reader">, bearer: Bearer): Promise<boolean> {
  const view = await authenticated(parts, bearer);
  return view !== undefined && !view.isOver;
}

function ticketOf({ id, architecture, kernelArguments, network }: AgentSessionRow, secret: string): BootTicket {
  return { session: id, secret, architecture, kernelArguments, network };
}

export async function reached({ transact }: AgentParts, session: string): Promise<void> {
  if (isUuid(session)) await transact(({ tx }) => noteKernel(tx, session));
}

export async function leased({ transact }: AgentParts, given: string): Promise<void> {
  const mac = macOf(given);
  if (mac !== null) await transact(({ tx }) => noteLease(tx, mac));
}

/**
 * Stores the report, and wakes the step that waits for it. It can come after the run has ended: a restart does not
 * install again, and finds it. Another boot of the agent on the node makes the token invalid.
 */
export async function callHome(
  { reader, transact, log }: AgentParts,
  token: string,
  given: StoredJson,
): Promise<boolean> {
  const [id = "", secret = "", ...rest] = token.split(".");
  if (!isUuid(id) || rest.length > 0) return false;
  const view = await agentSessionById(reader, id);
  const hash = view?.session.homeHash ?? null;
  if (!view || hash === null || !isSecret(secret, hash)) return false;
  const body = isStorable(given) ? given : null;
  const { run, session } = view;
  return transact(async (transaction) => {
    const { tx } = transaction;
    const locked = await lockRun(tx, run.id);
    if ((await newestSessionOfNode(tx, session.nodeId))?.id !== id) return false;
    if (!(await putHome(tx, id, body))) return true;
    const now = await agentSessionById(tx, id);
    if (locked?.finishedAt === null && now?.session.task === null)
      await deliverCallback(transaction, locked, { home: body });
    transaction.afterCommit(() =>
      log.info({ node: run.nodeName, runId: run.id }, `the installed system of node ${run.nodeName} has reported`),
    );
    return true;
  });
}
