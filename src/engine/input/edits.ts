/** The frames of requests: carried out as a whole, or refused. */
import { RefusalError, invalidInput } from "../../errors.ts";
import type { Refusal, Refused } from "../../errors.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";

/** The answer of a change, or `refused` with the refusals that the change throws. */
export async function answerEdit<Answer extends Refused>(
  change: () => Promise<Answer>,
  refused: Answer,
): Promise<Answer> {
  try {
    return await change();
  } catch (error) {
    if (error instanceof RefusalError) return { ...refused, refusals: error.refusals };
    throw error;
  }
}

/** How the names of constraints begin that a request violates if another one was faster. */
const TAKEN = [
  ...["nodes", "images", "clusters", "runbooks"].map((table) => `${table}_name`),
  "node_macs",
  "nodes_cluster",
  "operations_idempotency",
];

/**
 * Makes a change, and makes it again if another request took one of its names, its key or its cluster, for example,
 * between the check and the write: the check then refuses it, or finds the other request.
 */
export async function repeatIfTaken<Answer>(change: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await change();
    } catch (error) {
      const violated = violatedConstraint(error);
      if (!TAKEN.some((one) => violated?.startsWith(one))) throw error;
    }
  }
}

/** Throws if the name that a request gives to a row is that of another one. `id`: of the row, if it exists. */
export function requireFreeName(
  what: string,
  found: { readonly id: string; readonly name: string } | undefined,
  id?: string,
): void {
  if (!found || found.id === id) return;
  throw new RefusalError([invalidInput(`${what} ${found.name} exists already.`, ["input", "name"])]);
}

/** The refusals of the items of a list, whose paths begin with `input`, the list and the position, in their order. */
export function inOrderOfList(refusals: readonly Refusal[]): readonly Refusal[] {
  const positionOf = ({ path }: Refusal) => Number(path?.[2] ?? 0);
  return refusals.toSorted((a, b) => positionOf(a) - positionOf(b));
}

/** Throws the refusals if there are any. */
export function requireNone(refusals: readonly Refusal[]): void {
  if (refusals.length > 0) throw new RefusalError(refusals);
}

/** Throws unless a row has the revision that the request names, if it names one. */
export function requireRevision(what: string, revision: number, expected: number | undefined): void {
  if (expected === undefined || expected === revision) return;
  throw new RefusalError([staleRevision(what, revision, { expected, path: ["input", "ifRevision"] })]);
}

export function staleRevision(
  what: string,
  revision: number,
  { expected, path }: { readonly expected: number; readonly path: readonly string[] },
): Refusal {
  const message = `${what} is at revision ${revision}, not ${expected}. Read it again and repeat the change.`;
  return { code: "STALE_REVISION", message, path };
}
