/** Changes that other clients make while the page is open: work, flags, edits, presence, deletion, registration. */
import { nameOf } from "../../../test/console/browser/service.ts";
import type { Service } from "../../../test/console/browser/service.ts";
import { WAIT_MS } from "./tab.ts";

const PAUSE_MS = 250;

export interface Changes {
  /** One change after the other until the signal fires, also while the service is down. Returns how many were made. */
  makeUntil(signal: AbortSignal): Promise<number>;
  /** The same until `work` ends. */
  makeDuring(work: () => Promise<void>): Promise<void>;
  /** Resolves when `count` further ones have been made; throws after `WAIT_MS`. */
  further(count: number): Promise<void>;
}

export function createChanges(service: Service, nodes: number): Changes {
  // By all calls together, because a change that is repeated changes nothing.
  let made = 0;

  async function makeUntil(signal: AbortSignal): Promise<number> {
    const before = made;
    while (!signal.aborted) {
      try {
        await change(service, nodes, made);
        made += 1;
      } catch (error) {
        // `fetch` throws it for a connection that is refused or breaks.
        if (!(error instanceof TypeError)) throw error;
      }
      await pause();
    }
    return made - before;
  }

  return {
    makeUntil,
    async makeDuring(work) {
      const ended = new AbortController();
      await Promise.all([makeUntil(ended.signal), work().finally(() => ended.abort())]);
    },
    async further(count) {
      const [before, until] = [made, performance.now() + WAIT_MS];
      while (made < before + count) {
        if (performance.now() >= until) throw new Error(`${made - before} of ${count} changes in ${WAIT_MS} ms.`);
        await pause();
      }
    },
  };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}

/** Edits one node again and again, without a pause, until the signal fires. */
export async function editWithoutPause(service: Service, name: string, signal: AbortSignal): Promise<void> {
  for (let count = 0; !signal.aborted; count += 1)
    await send(service, "updateNodes", "UpdateNodesInput!", { nodes: { names: [name] }, hostGroup: `group-${count}` });
}

/** Different nodes for each kind, so that none is refused because of another. */
async function change(service: Service, nodes: number, count: number): Promise<void> {
  const node = (offset: number) => nameOf((count * 37 + offset) % Math.floor(nodes / 2));
  const name = node(0);
  switch (count % 8) {
    case 0:
      return send(service, "commissionNodes", "CommissionNodesInput!", {
        nodes: { names: Array.from({ length: 5 }, (_, index) => node(index)) },
        acceptance: "BEST_EFFORT",
        until: "AVAILABLE",
      });
    case 1:
      return send(service, "setMaintenance", "SetMaintenanceInput!", {
        nodes: { names: [name] },
        reason: `fan ${count}`,
      });
    case 2:
      return send(service, "updateNodes", "UpdateNodesInput!", {
        nodes: { names: [name] },
        protected: true,
        hostGroup: "edge",
      });
    case 3:
      return send(service, "reportPresence", "ReportPresenceInput!", { event: "DISAPPEARED", nodes: [{ name }] });
    case 4:
      return send(service, "deleteNodes", "DeleteNodesInput!", { nodes: { names: [nameOf(nodes - 1 - count)] } });
    case 5:
      return send(service, "registerNodes", "RegisterNodesInput!", {
        nodes: [{ name: `new-${count}`, driver: { fake: { delayMs: 100 } }, cluster: { name: "lyon" } }],
      });
    case 6:
      return send(service, "setRetired", "SetRetiredInput!", { nodes: { names: [name] }, reason: `too old ${count}` });
    default:
      return send(service, "updateNodes", "UpdateNodesInput!", {
        nodes: { names: [name] },
        labels: [{ key: "rack", value: `moved-${count}` }],
      });
  }
}

/** Begins work on nodes, and returns the global ID of the operation. */
export async function begin(service: Service, mutation: string, type: string, input: object): Promise<string> {
  const { answer } = await service.ask<{ answer: { operation: { id: string } | null } }>(
    `mutation($input: ${type}) { answer: ${mutation}(input: $input) { operation { id } } }`,
    { input },
  );
  if (!answer.operation) throw new Error(`${mutation} began nothing.`);
  return answer.operation.id;
}

export async function send(service: Service, mutation: string, type: string, input: object): Promise<void> {
  await service.ask(`mutation($input: ${type}) { ${mutation}(input: $input) { errors { message } } }`, { input });
}

/** Resolves when no operation runs: then no node has a run that waits. */
export async function untilQuiet(service: Service): Promise<void> {
  for (;;) {
    const [row] = await service.sql<{ running: number }[]>`
      select count(*)::int as running from operations where finished_at is null`;
    if (row?.running === 0) return;
    await pause();
  }
}
