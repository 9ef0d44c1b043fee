/**
 * Reads the power of all nodes at rest in the background, each at least once per period, and sets it back if the site's
 * policy says so.
 *
 * Replicas share the nodes: one statement claims due nodes and skips those that another replica has locked. Nodes that
 * gave no answer the last time have calls of their own, so that many dead BMCs do not delay the others.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Deadline } from "../../drivers/deadline.ts";
import type { PowerState } from "../../drivers/driver.ts";
import { setsPower } from "../../drivers/registry.ts";
import { messageOf } from "../../errors.ts";
import { mapConcurrently } from "../../runtime/concurrency.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { WITHOUT_POWER, claimPowerReads } from "../../store/nodes/power.ts";
import type { PowerRead } from "../../store/nodes/power.ts";
import type { SitePolicy } from "../../store/records.ts";
import { readSite } from "../../store/site.ts";
import { READ_MS } from "./power-calls.ts";
import type { PowerCalls, PowerReaderParts, RestingNode } from "./power-calls.ts";

/** Calls at the same time: to nodes that answered the last time, and to nodes that did not. */
const CALLS_MAX = { sound: 12, troubled: 4 } as const;
const PAGE = 100;
/** Calls to troubled nodes may take long, so few are claimed together; other replicas claim the others. */
const TROUBLED_PAGE = 8;
/** A node is due after this share of the period; the rest is for the call. */
const DUE = 0.75;
/** Looks for due nodes per period. */
const LOOKS = 8;
const LOOK_EVERY_MS_MAX = 5_000;
const AFTER_FAILURE_MS = 1_000;
/** How long a reading waits for a free call of the driver, in addition to the call. */
const PATIENCE_MS = 60_000;

interface BackgroundParts extends PowerReaderParts {
  readonly calls: PowerCalls;
  /** Aborted when the engine closes. */
  readonly closing: AbortSignal;
}

/** `seconds`: the period in which each node is read. Resolves when no call is running, after the engine has closed. */
export async function readInBackground(parts: BackgroundParts, seconds: number): Promise<void> {
  await Promise.all([readForever(parts, seconds, false), readForever(parts, seconds, true)]);
}

/** `troubled`: reads the nodes that gave no answer the last time, and only those. */
async function readForever(parts: BackgroundParts, seconds: number, troubled: boolean): Promise<void> {
  const { database, log, closing } = parts;
  const due = { seconds: seconds * DUE, troubled, limit: troubled ? TROUBLED_PAGE : PAGE };
  const lookEveryMs = Math.min(LOOK_EVERY_MS_MAX, (seconds * 1000) / LOOKS);
  while (!closing.aborted) {
    try {
      // Without a notification: only readers use the note that a node has been claimed.
      const claimed = await database.transaction((tx) => claimPowerReads(tx, due));
      if (claimed.length > 0) await readPage(parts, claimed, troubled ? CALLS_MAX.troubled : CALLS_MAX.sound);
      else await pause(lookEveryMs, closing);
    } catch (error) {
      log.warn({ err: error }, "the power of nodes could not be read; trying again");
      await pause(AFTER_FAILURE_MS, closing);
    }
  }
}

async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await delay(milliseconds, undefined, { signal }).catch(() => {});
}

/** Nodes that share a controller are read one after the other, because one BMC answers for all of them. */
async function readPage(parts: BackgroundParts, claimed: readonly PowerRead[], callsMax: number): Promise<void> {
  const { policy } = await readSite(parts.database.reader);
  const groups = [...Map.groupBy(claimed, ({ id, controller }) => controller ?? id).values()];
  const failures: unknown[] = [];
  await mapConcurrently(callsMax, groups, async (group) => {
    for (const { id } of group) await readOne(parts, id, policy).catch((error: unknown) => failures.push(error));
  });
  if (failures.length > 0) throw failures[0];
}

async function readOne(parts: BackgroundParts, nodeId: string, policy: SitePolicy): Promise<void> {
  const { calls, closing } = parts;
  const before = closing.aborted ? null : await calls.look(nodeId, nodeId);
  if (!before || "refusal" in before || isLeftAlone(before.node)) return;
  if (!("problem" in before.machine) && !setsPower(before.machine.composition)) return;
  const reading = await calls.read(before, new Deadline(READ_MS + PATIENCE_MS), { isBackground: true });
  if (closing.aborted || reading === null || reading === "NO_SLOT") return;
  if (!(await calls.record(before, reading, true))) return;
  if ("state" in reading) await correct(parts, policy, before, reading.state);
}

/** Sets the power back once to what was last wanted, if the site's policy says so and the node permits it. */
async function correct(
  { calls, log }: BackgroundParts,
  policy: SitePolicy,
  read: RestingNode,
  found: PowerState,
): Promise<void> {
  if (!policy.correctPower || !isCorrectable(read.node, found)) return;
  const before = await calls.look(read.node.id, read.node.name);
  if ("refusal" in before || before.runs !== read.runs || !isCorrectable(before.node, found)) return;
  const { node, machine } = before;
  const { name, wantedPower } = node;
  if ("problem" in machine || wantedPower === null) return;
  const about = { node: name, power: wantedPower, found };
  try {
    const set = await calls.set(before, machine, wantedPower);
    if (set === null) return;
    const isRecorded = await calls.record(before, { state: set });
    log.info({ ...about, isRecorded }, "the power had drifted and was set back");
  } catch (error) {
    const reason = machine.redactor.text(messageOf(error));
    log.warn({ ...about, reason }, "the power had drifted and could not be set back");
  }
}

function isLeftAlone({ state, maintenanceSince }: NodeRow): boolean {
  return maintenanceSince !== null || WITHOUT_POWER.includes(state);
}

/**
 * Whether the power differs from what was wanted and may be set back. A protected node is never switched off, and a
 * machine that may be writing its firmware, or may be that of another node, is left alone.
 */
function isCorrectable(node: NodeRow, state: PowerState): boolean {
  const { wantedPower, isProtected, faultKind, identityConflict } = node;
  return (
    wantedPower !== null &&
    faultKind !== "MACHINE_BUSY" &&
    identityConflict === null &&
    state !== "UNKNOWN" &&
    state !== wantedPower &&
    !isLeftAlone(node) &&
    !(isProtected && wantedPower === "OFF")
  );
}
