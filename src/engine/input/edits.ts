/** The frame of a change of rows, such as clusters or images: it is carried out as a whole, or refused. */
import { RefusalError, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";

/** The constraint that keeps names unique, and the object that has the name already. */
interface UniqueName {
  readonly constraint: string;
  readonly what: string;
  existing(): Promise<{ readonly name: string } | undefined>;
}

/** The answer of a change, or the one that `refuse` makes of the refusals that the change throws. */
export async function answerEdit<Answer>(
  change: () => Promise<Answer>,
  refuse: (refusals: readonly Refusal[]) => Answer,
  name?: UniqueName,
): Promise<Answer> {
  try {
    return await change();
  } catch (error) {
    if (error instanceof RefusalError) return refuse(error.refusals);
    if (!name || !violatedConstraint(error)?.startsWith(name.constraint)) throw error;
    const { name: taken = "of this name" } = (await name.existing()) ?? {};
    return refuse([invalidInput(`${name.what} ${taken} exists already.`, ["input", "name"])]);
  }
}

/**
 * Makes a change, and makes it again if another request took one of its names, for example, between the check and the
 * write: the check then refuses it. `constraints`: how the names of those begin that such a change violates.
 */
export async function repeatIfTaken<Answer>(
  constraints: readonly string[],
  change: () => Promise<Answer>,
): Promise<Answer> {
  for (;;) {
    try {
      return await change();
    } catch (error) {
      const violated = violatedConstraint(error);
      if (!constraints.some((one) => violated?.startsWith(one))) throw error;
    }
  }
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
