/** Accounts: programs, and persons of a site without an issuer. */
import { randomUUID } from "node:crypto";
import { RefusalError, notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { accountByName, insertAccount, updateAccountRow } from "../../store/access/accounts.ts";
import type { AccountRow } from "../../store/access/accounts.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { requireFreeName, requireNone } from "../input/edits.ts";
import { nameFlaw } from "../input/name-rules.ts";
import { editOf } from "../audit/edits.ts";
import { DESCRIPTION_LENGTH_MAX, textFlaws } from "../input/size-limits.ts";
import type { Caller } from "../transaction.ts";
import { changeAccess } from "./change-access.ts";
import type { AccessContext } from "./change-access.ts";

export type AccountEdited = { readonly accountId: string | null; readonly refusals: readonly Refusal[] };

export async function createAccount(
  context: AccessContext,
  caller: Caller,
  { name, displayName = null }: { readonly name: string; readonly displayName?: string | null | undefined },
): Promise<AccountEdited> {
  requireNone([...nameFlaw(name, ["input", "name"]), ...displayNameFlaws(displayName)]);
  const accountId = randomUUID();
  await changeAccess(context, async (transaction) => {
    requireFreeName("Account", await accountByName(transaction.tx, name));
    await insertAccount(transaction.tx, { id: accountId, name, displayName, createdBy: caller.actor });
    transaction.audit(caller, { targets: [name], edits: editOf(name, null, { displayName }) });
  });
  return { accountId, refusals: [] };
}

/** A change of an account. An absent member stays. */
interface AccountChange {
  /** Null removes it. */
  readonly displayName?: string | null | undefined;
  readonly disabled?: boolean | undefined;
}

export async function updateAccount(
  context: AccessContext,
  caller: Caller,
  name: string,
  { displayName, disabled }: AccountChange,
): Promise<AccountEdited> {
  requireNone(displayNameFlaws(displayName));
  return changeAccess(context, async (transaction) => {
    const account = await knownAccount(transaction.tx, name);
    const changed = {
      ...(displayName !== undefined && { displayName }),
      ...(disabled !== undefined && { disabledAt: disabled ? (account.disabledAt ?? new Date()) : null }),
    };
    if (Object.keys(changed).length > 0) await updateAccountRow(transaction.tx, account.id, changed);
    const edits = editOf(account.name, account, { ...account, ...changed });
    transaction.audit(caller, { targets: [account.name], edits });
    return { accountId: account.id, refusals: [] };
  });
}

/** The account; throws a refusal if there is none of this name. */
export async function knownAccount(
  reader: Reader,
  name: string,
  path: readonly string[] = ["input", "account"],
): Promise<AccountRow> {
  const account = await accountByName(reader, name);
  if (!account)
    throw new RefusalError([notFound(`There is no account ${name}. Create it with createAccount.`, [name], path)]);
  return account;
}

function displayNameFlaws(displayName: string | null | undefined): Refusal[] {
  return textFlaws("displayName", displayName, DESCRIPTION_LENGTH_MAX);
}
