/** Tokens of accounts. Their secret leaves the service once, when they are created. */
import { RefusalError, flawIf, invalidInput, notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { createApiToken } from "../../runtime/api-token.ts";
import { rolesByNames } from "../../store/access/grants.ts";
import { endSessionRows, refuseOlderTokens } from "../../store/access/sessions.ts";
import { insertToken, revokeTokenRows, tokensByIds } from "../../store/access/tokens.ts";
import type { TokenRow } from "../../store/access/tokens.ts";
import type { BoundDocument } from "../../store/records.ts";
import { requireNone } from "../input/edits.ts";
import { editOf } from "../audit/edits.ts";
import { DESCRIPTION_LENGTH_MAX, textFlaws } from "../input/size-limits.ts";
import type { Caller } from "../transaction.ts";
import { knownAccount } from "./accounts.ts";
import { changeAccess } from "./change-access.ts";
import type { AccessContext } from "./change-access.ts";
import { bindingFlaws } from "./documents.ts";
import type { VariableFlaws } from "./documents.ts";
import { knownPrincipal, unknownRoles } from "./roles.ts";

const DAYS_MAX = 366;
const DAYS_DEFAULT = 90;
const DAY_MS = 24 * 60 * 60 * 1_000;

interface NewToken {
  readonly account: string;
  /** The most that the token may do. Default: all that its account may. */
  readonly role?: string | undefined;
  readonly description?: string | undefined;
  /** Default: 90. */
  readonly expiresInDays?: number | undefined;
  /** The only documents that the token sends. Default: no such limit. */
  readonly documents?: readonly BoundDocument[] | undefined;
}

export interface TokenCreated {
  readonly tokenId: string | null;
  /** The token itself; null if the request was refused. */
  readonly secret: string | null;
  readonly refusals: readonly Refusal[];
}

export async function createToken(
  context: AccessContext,
  caller: Caller,
  { account: name, role, description, expiresInDays = DAYS_DEFAULT, documents }: NewToken,
  variableFlaws: VariableFlaws = () => [],
): Promise<TokenCreated> {
  requireNone([...daysFlaws(expiresInDays), ...textFlaws("description", description, DESCRIPTION_LENGTH_MAX)]);
  return changeAccess(context, async (transaction, version) => {
    const { tx } = transaction;
    const account = await knownAccount(tx, name);
    if (account.disabledAt) throw new RefusalError([disabled(account.name)]);
    const roles = role === undefined ? [] : [role];
    requireNone(unknownRoles(roles, await rolesByNames(tx, roles), () => ["input", "role"]));
    requireNone(await bindingFlaws(tx, documents, variableFlaws));
    const { text, id, hash } = createApiToken();
    const limits = {
      role: role ?? null,
      description: description ?? null,
      documents: documents ?? null,
      expiresAt: new Date(Date.now() + expiresInDays * DAY_MS),
    };
    await insertToken(tx, { id, accountId: account.id, hash, ...limits, createdBy: caller.actor, version });
    // The values that a document has fixed may be secrets; `AccessToken.documents` has them.
    const edits = editOf(id, null, limits, ["variables"]);
    transaction.audit(caller, { targets: [account.name, id], edits });
    return { tokenId: id, secret: text, refusals: [] };
  });
}

/** Tokens by their ids, all of an account, or the sessions and JWTs of a subject. */
export type TokenChoice =
  | { readonly ids: readonly string[] }
  | { readonly account: string }
  | { readonly subject: string };

export type TokensRevoked = {
  readonly tokenIds: readonly string[];
  readonly sessionsEnded: number;
  readonly refusals: readonly Refusal[];
};

/** Revokes tokens. A token that was revoked before stays as it is. */
export async function revokeTokens(
  context: AccessContext,
  caller: Caller,
  choice: TokenChoice,
): Promise<TokensRevoked> {
  return changeAccess(context, async (transaction, version) => {
    const { tx } = transaction;
    if ("subject" in choice) {
      const subject = await knownPrincipal(tx, context, choice.subject, ["input", "tokens", "subject"]);
      if (subject.startsWith("group:")) throw new RefusalError([ofGroup(subject)]);
      await refuseOlderTokens(tx, { subject, version });
      const ended = await endSessionRows(tx, { subject }, version);
      transaction.audit(caller, { targets: [subject] });
      return { tokenIds: [], sessionsEnded: ended.length, refusals: [] };
    }
    const which =
      "ids" in choice
        ? choice
        : { accountId: (await knownAccount(tx, choice.account, ["input", "tokens", "account"])).id };
    if ("ids" in choice) requireNone(unknownTokens(choice.ids, await tokensByIds(tx, choice.ids)));
    const rows = await revokeTokenRows(tx, which, { revokedBy: caller.actor, version });
    const tokenIds = rows.map(({ id }) => id);
    transaction.audit(caller, { targets: [...("account" in choice ? [choice.account] : []), ...tokenIds] });
    return { tokenIds, sessionsEnded: 0, refusals: [] };
  });
}

function ofGroup(group: string): Refusal {
  return invalidInput(
    `${group} is a group, which has no tokens. Name its members one by one, as user:<issuer>:<subject>, or remove its roles with setRoles.`,
    ["input", "tokens", "subject"],
  );
}

function daysFlaws(days: number): Refusal[] {
  const message = `Invalid expiresInDays: use a whole number of days, 1 to ${DAYS_MAX}. Without it a token expires after ${DAYS_DEFAULT}.`;
  return flawIf(!(Number.isInteger(days) && days >= 1 && days <= DAYS_MAX), message, ["input", "expiresInDays"]);
}

function disabled(account: string): Refusal {
  const message = `Account ${account} is disabled. Enable it with updateAccount.`;
  return { code: "INVALID_STATE", message, path: ["input", "account"] };
}

function unknownTokens(ids: readonly string[], rows: readonly TokenRow[]): Refusal[] {
  if (ids.length === 0)
    return [invalidInput("The list of ids is empty; name at least one token.", ["input", "tokens", "ids"])];
  const known = new Set(rows.map(({ id }) => id));
  const missing = ids.filter((id) => !known.has(id));
  if (missing.length === 0) return [];
  const message = `There is no token ${missing.join(", ")}. The query \`accounts\` lists tokens with their ids.`;
  return [notFound(message, missing, ["input", "tokens", "ids"])];
}
