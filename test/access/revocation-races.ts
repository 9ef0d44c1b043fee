/**
 * Revocation races: a caller sends mutations to two replicas without a pause, while its rights are taken away and given
 * back. None that starts after the answer to the revocation may be accepted.
 */
import type { TestAccount, administratorOf } from "../support/accounts.ts";
import { ask } from "../support/ask.ts";

/** Sends one mutation of the caller, and returns whether it was accepted. */
type Send = (caller: TestAccount) => Promise<boolean>;

export interface Races {
  readonly administrator: ReturnType<typeof administratorOf>;
  /** One for each replica. */
  readonly replicas: readonly Send[];
  readonly tries: number;
}

export interface RaceFigures {
  /** Mutations that were accepted before a revocation was answered, which shows that there were races. */
  readonly acceptedBefore: number;
  /** Mutations that started after the answer, and those of them that were accepted. */
  readonly startedAfter: number;
  readonly acceptedAfter: number;
}

/** Marks a node of a replica. */
export function markingAt(url: string, node: string): Send {
  const query = `mutation { it: setMaintenance(input: { nodes: { names: ["${node}"] }, reason: "race" }) { errors { code } } }`;
  return async ({ token }) => {
    const refused = (error: Error) => {
      if (/requires the scope OPERATE|was revoked/.test(error.message)) return null;
      throw error;
    };
    const data = await ask<{ it: { errors: readonly unknown[] } }>(url, query, { token }).catch(refused);
    return data?.it.errors.length === 0;
  };
}

/** Mutations that start after each answer, on each replica. */
const AFTER = 2;

export async function raceRevocations({ administrator, replicas, tries }: Races): Promise<RaceFigures> {
  let [acceptedBefore, startedAfter, acceptedAfter] = [0, 0, 0];
  for (let index = 0; index < tries; index += 1) {
    const caller = await administrator.account("operator");
    let isRevoked = false;
    const senders = replicas.map(async (send) => {
      while (!isRevoked) if (await send(caller)) acceptedBefore += 1;
    });
    await (index % 2 === 0 ? administrator.revoke(caller) : administrator.setRoles(caller.name, "viewer"));
    // From here on every mutation starts after the answer, those of the senders that are under way do not.
    isRevoked = true;
    const late = await Promise.all(replicas.flatMap((send) => Array.from({ length: AFTER }, () => send(caller))));
    startedAfter += late.length;
    acceptedAfter += late.filter(Boolean).length;
    await Promise.all(senders);
  }
  return { acceptedBefore, startedAfter, acceptedAfter };
}
