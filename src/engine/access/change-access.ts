/** The frame of a change of accounts, tokens, grants or roles: one at a time, and never without an administrator. */
import { RefusalError } from "../../errors.ts";
import { raiseAccessVersion } from "../../store/access/version.ts";
import { countAdministrators } from "../../store/access/grants.ts";
import type { EngineContext } from "../context.ts";
import type { Transaction } from "../transaction.ts";

export type AccessContext = Pick<EngineContext, "transact" | "principals">;

/** `change` gets the access version that the change makes. */
export async function changeAccess<Answer>(
  { transact, principals }: AccessContext,
  change: (transaction: Transaction, version: number) => Promise<Answer>,
): Promise<Answer> {
  return transact(async (transaction) => {
    const { tx } = transaction;
    const version = await raiseAccessVersion(tx);
    const before = await countAdministrators(tx);
    const answer = await change(transaction, version);
    if (principals.admins.length === 0 && before > 0 && (await countAdministrators(tx)) === 0)
      throw new RefusalError([
        {
          code: "PROTECTED",
          message:
            "Nothing would have a lasting grant of ADMIN any more. Grant the role admin to another account first, or name a principal in OSTLER_ADMINS.",
        },
      ]);
    return answer;
  });
}
