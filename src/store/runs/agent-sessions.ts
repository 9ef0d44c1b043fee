/** Sessions of the agent that machines boot from a ramdisk. */
import { and, eq, isNotNull, isNull, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { pick } from "../../runtime/pick.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { newestRow } from "../postgres/table-queries.ts";
import type { RowChange } from "../postgres/table-queries.ts";
import type { AgentIdentity, StoredJson, StoredTask, TaskIdentity } from "../records.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { mapSecrets, SECRETS } from "../secrets/secrets.ts";
import { agentSessions, attempts, nodeMacs, runs } from "../tables.ts";

export type AgentSessionRow = typeof agentSessions.$inferSelect;

const RUN = pick(runs, [
  "id",
  "nodeName",
  "operationId",
  "state",
  "position",
  "interrupt",
  "interruptMode",
  "interruptFailure",
  "leftAs",
]);
/** A session without an end of its own is over this long after its last contact: to overwrite a disk takes days. */
const SILENCE_MAX = sql.raw("interval '24 hours'");

const IS_OVER = sql<boolean>`(${agentSessions.endedAt} is not null or ${runs.finishedAt} is not null or coalesce(${agentSessions.seenAt}, ${agentSessions.openedAt}) < now() - ${SILENCE_MAX})`;

const ATTEMPT_OF_TASK = and(
  eq(attempts.runId, agentSessions.runId),
  eq(attempts.step, sql`(${agentSessions.task} ->> 'step')::int`),
  eq(attempts.number, sql`(${agentSessions.task} ->> 'attempt')::int`),
);

function selectView(reader: Reader, id: string) {
  return reader
    .select({
      session: agentSessions,
      run: RUN,
      /** Null if no task is assigned. */
      attempt: pick(attempts, ["state", "part", "failure"]),
      /** It was closed or replaced, its run has finished, or it is too old. */
      isOver: IS_OVER,
      /** Seconds since its last stored contact; null: there was none. */
      silentSeconds: sql<number | null>`extract(epoch from now() - ${agentSessions.seenAt})::float8`,
    })
    .from(agentSessions)
    .innerJoin(runs, eq(runs.id, agentSessions.runId))
    .leftJoin(attempts, ATTEMPT_OF_TASK)
    .where(eq(agentSessions.id, id));
}

/** A session, its run, and the attempt for which its task was assigned. */
export type AgentSessionView = Awaited<ReturnType<typeof selectView>>[number];

/** A session as an agent or a machine names it. */
export async function agentSessionById(reader: Reader, id: string): Promise<AgentSessionView | undefined> {
  const [row] = await selectView(reader, id);
  return row;
}

const NEWEST_FIRST = [agentSessions.openedAt, agentSessions.id];

/** The newest session of a run. */
export async function newestAgentSession(reader: Reader, runId: string): Promise<AgentSessionRow | undefined> {
  return newestRow(reader, agentSessions, eq(agentSessions.runId, runId), NEWEST_FIRST);
}

/** The newest session of a node, whichever run has opened it. */
export async function newestSessionOfNode(reader: Reader, nodeId: string): Promise<AgentSessionRow | undefined> {
  return newestRow(reader, agentSessions, eq(agentSessions.nodeId, nodeId), NEWEST_FIRST);
}

/** The open session of the node with one of the MACs whose agent boots, or was booted, over the network. */
export async function sessionToBoot(reader: Reader, macs: readonly string[]): Promise<AgentSessionRow | undefined> {
  if (macs.length === 0) return undefined;
  const isOpen = and(isNull(agentSessions.endedAt), sql`not ${IS_OVER}`);
  const [row] = await reader
    .select({ session: agentSessions })
    .from(nodeMacs)
    .innerJoin(agentSessions, eq(agentSessions.nodeId, nodeMacs.nodeId))
    .innerJoin(runs, eq(runs.id, agentSessions.runId))
    .where(and(inArrayParam(nodeMacs.mac, macs), eq(agentSessions.medium, "NETWORK"), isOpen))
    .limit(1);
  return row?.session;
}

interface NewAgentSession extends Pick<
  AgentSessionRow,
  "id" | "nodeId" | "runId" | "secretHash" | "medium" | "architecture" | "kernelArguments" | "network"
> {}

/** Opens a session, and ends the earlier one of its node. */
export async function openAgentSession(tx: Tx, session: NewAgentSession): Promise<void> {
  await endSessions(tx, eq(agentSessions.nodeId, session.nodeId));
  // Two sessions of one transaction's time would have no order.
  await tx.insert(agentSessions).values({ ...session, openedAt: sql`clock_timestamp()` });
}

/** Ends the open session of a run. */
export async function closeAgentSession(tx: Tx, runId: string): Promise<void> {
  await endSessions(tx, eq(agentSessions.runId, runId));
}

async function endSessions(tx: Tx, which: SQL): Promise<number> {
  return changeSessions(tx, { endedAt: sql`now()`, task: null }, and(which, isNull(agentSessions.endedAt)));
}

/** Ends the sessions of finished runs, and those that are too old, with their tasks. Returns their number. */
export async function endSessionsOfEndedRuns(tx: Tx, limit: number): Promise<number> {
  const stale = tx
    .select({ id: agentSessions.id })
    .from(agentSessions)
    .innerJoin(runs, eq(runs.id, agentSessions.runId))
    .where(and(isNull(agentSessions.endedAt), IS_OVER))
    .limit(limit);
  return endSessions(tx, sql`${agentSessions.id} in ${stale}`);
}

/** Changes the sessions that match, and returns their number. */
async function changeSessions(
  tx: Tx,
  change: RowChange<typeof agentSessions>,
  which: SQL | undefined,
): Promise<number> {
  const rows = await tx
    .update(agentSessions)
    .set(change as Partial<AgentSessionRow>)
    .where(which)
    .returning({ id: agentSessions.id });
  return rows.length;
}

function isOne(id: string, ...conditions: readonly SQL[]): SQL | undefined {
  return and(eq(agentSessions.id, id), ...conditions);
}

/** Fixes the agent of a session; false if it has one. */
export async function fixAgent(tx: Tx, id: string, instance: string, agent: AgentIdentity): Promise<boolean> {
  const isWaiting = isOne(id, isNull(agentSessions.instance), isNull(agentSessions.endedAt));
  return (await changeSessions(tx, { instance, agent, contactAt: sql`now()`, seenAt: sql`now()` }, isWaiting)) > 0;
}

/** Notes a contact of the agent. */
export async function noteSeen(tx: Tx, id: string, agent: AgentIdentity): Promise<void> {
  await changeSessions(tx, { agent, seenAt: sql`now()` }, isOne(id));
}

/** Counts a request of another agent, and returns the number. */
export async function countStranger(tx: Tx, id: string): Promise<number> {
  const [row] = await tx
    .update(agentSessions)
    .set({ strangers: sql`${agentSessions.strangers} + 1` })
    .where(eq(agentSessions.id, id))
    .returning({ strangers: agentSessions.strangers });
  return row?.strangers ?? 0;
}

const SCRIPT_AT = sql`coalesce(${agentSessions.scriptAt}, now())`;

/** Notes that the medium was fetched. */
export async function noteMedium(tx: Tx, id: string): Promise<void> {
  await changeSessions(tx, { scriptAt: SCRIPT_AT }, isOne(id, isNull(agentSessions.endedAt)));
}

/**
 * Notes that the boot script was fetched from an address. The new secret replaces that of an agent that has not come
 * yet. A second address ends the session, unless it is leased to the machine. Returns the session if it has changed.
 */
export async function noteScript(
  tx: Tx,
  id: string,
  {
    address,
    isLeased,
    secretHash,
  }: { readonly address: string; readonly isLeased: boolean; readonly secretHash: string },
): Promise<AgentSessionRow | undefined> {
  const known = sql`jsonb_build_array(${address}::text)`;
  const isKnown = sql`(${isLeased} or ${agentSessions.bootAddresses} in ('[]', ${known}))`;
  const isOpen = isOne(id, isNull(agentSessions.endedAt));
  const boot = { scriptAt: SCRIPT_AT, bootAddresses: [address], secretHash };
  if ((await changeSessions(tx, boot, and(isOpen, isKnown, isNull(agentSessions.instance)))) === 0) {
    const end = { bootAddresses: sql`${agentSessions.bootAddresses} || ${known}`, endedAt: sql`now()`, task: null };
    if ((await changeSessions(tx, end, and(isOpen, sql`not ${isKnown}`))) === 0) return undefined;
  }
  return (await tx.select().from(agentSessions).where(eq(agentSessions.id, id)))[0];
}

export async function noteKernel(tx: Tx, id: string): Promise<void> {
  const isNew = isOne(id, isNull(agentSessions.kernelAt), isNull(agentSessions.endedAt));
  await changeSessions(tx, { kernelAt: sql`now()` }, isNew);
}

/** Notes the DHCP lease of a machine whose agent has not come yet. */
export async function noteLease(tx: Tx, mac: string): Promise<void> {
  const node = sql`(select ${nodeMacs.nodeId} from ${nodeMacs} where ${nodeMacs.mac} = ${mac})`;
  const isNew = and(isNull(agentSessions.endedAt), isNull(agentSessions.dhcpAt));
  await changeSessions(tx, { dhcpAt: sql`now()` }, and(sql`${agentSessions.nodeId} = ${node}`, isNew));
}

/** Assigns a task, whose arguments are secret. */
export async function putTask(tx: Tx, keyring: Keyring, id: string, given: StoredTask): Promise<void> {
  const task = mapSecrets({ column: SECRETS.agentTasks, row: id }, given, await keyring.encryption(tx));
  await changeSessions(tx, { task }, isOne(id));
}

export async function endTask(tx: Tx, id: string, lastTask?: TaskIdentity): Promise<void> {
  await changeSessions(tx, { task: null, ...(lastTask && { lastTask }) }, isOne(id));
}

export async function putHomeHash(tx: Tx, id: string, homeHash: string): Promise<void> {
  await changeSessions(tx, { homeHash }, isOne(id));
}

/** Stores the report of the installed system; false if there is one. */
export async function putHome(tx: Tx, id: string, home: StoredJson): Promise<boolean> {
  const isExpected = isOne(id, isNull(agentSessions.homeAt), isNotNull(agentSessions.homeHash));
  return (await changeSessions(tx, { home, homeAt: sql`now()` }, isExpected)) > 0;
}
