/** Roles, and their grants to principals. */
import { RefusalError, flawIf, invalidInput, notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { Scope } from "../../lifecycle/scopes.ts";
import { deleteRoleRow, principalsOfRole, putRoleRow, replaceGrants, rolesByNames } from "../../store/access/grants.ts";
import type { GrantRow, RoleRow } from "../../store/access/grants.ts";
import { tokensOfRole } from "../../store/access/tokens.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { requireNone } from "../input/edits.ts";
import { listed, nameFlaw } from "../input/name-rules.ts";
import { editOf } from "../audit/edits.ts";
import { DESCRIPTION_LENGTH_MAX, textFlaws } from "../input/size-limits.ts";
import type { Caller } from "../transaction.ts";
import { knownAccount } from "./accounts.ts";
import { changeAccess } from "./change-access.ts";
import type { AccessContext } from "./change-access.ts";

interface WantedRole {
  readonly role: string;
  /** Null: until it is removed. */
  readonly expiresAt?: Date | null | undefined;
}

export type RolesEdited = { readonly principal: string | null; readonly refusals: readonly Refusal[] };

/** Replaces the roles of a principal. */
export async function setRoles(
  context: AccessContext,
  caller: Caller,
  { principal: wanted, roles }: { readonly principal: string; readonly roles: readonly WantedRole[] },
): Promise<RolesEdited> {
  requireNone(wantedFlaws(roles));
  return changeAccess(context, async (transaction) => {
    const { tx } = transaction;
    const names = roles.map(({ role }) => role);
    const pathOf = (role: string) => ["input", "roles", String(names.indexOf(role)), "role"];
    requireNone(unknownRoles(names, await rolesByNames(tx, names), pathOf));
    const principal = await knownPrincipal(tx, context, wanted);
    const granted = roles.map(({ role, expiresAt = null }) => ({ role, expiresAt, grantedBy: caller.actor }));
    const before = await replaceGrants(tx, principal, granted);
    const edits = editOf(principal, { roles: before.map(shownGrant) }, { roles: granted.map(shownGrant) });
    transaction.audit(caller, { targets: [principal], edits });
    return { principal, refusals: [] };
  });
}

function shownGrant({ role, expiresAt }: Pick<GrantRow, "role" | "expiresAt">) {
  return { role, expiresAt };
}

export type RoleEdited = { readonly role: string | null; readonly refusals: readonly Refusal[] };

/** Creates a role, or changes it for all that have it. */
export async function putRole(
  context: AccessContext,
  caller: Caller,
  role: { readonly name: string; readonly scope: Scope; readonly description?: string | null | undefined },
): Promise<RoleEdited> {
  const { name, scope, description = null } = role;
  const flaws = textFlaws("description", description, DESCRIPTION_LENGTH_MAX);
  requireNone([...nameFlaw(name, ["input", "name"]), ...flaws]);
  return changeAccess(context, async (transaction) => {
    const { tx } = transaction;
    const [present] = await rolesByNames(tx, [name]);
    requireNone(builtInFlaws(present));
    await putRoleRow(tx, { name, scope, description });
    const edits = editOf(name, present ?? null, { ...present, name, scope, description });
    transaction.audit(caller, { targets: [name], edits });
    return { role: name, refusals: [] };
  });
}

/** Deletes a role that nothing has. */
export async function deleteRole(context: AccessContext, caller: Caller, name: string): Promise<RoleEdited> {
  return changeAccess(context, async (transaction) => {
    const { tx } = transaction;
    const present = await rolesByNames(tx, [name]);
    requireNone(unknownRoles([name], present, () => ["input", "name"]));
    requireNone(builtInFlaws(present[0]));
    const users = [...(await principalsOfRole(tx, name)), ...(await tokensOfRole(tx, name))];
    if (users.length > 0) throw new RefusalError([inUse(name, users)]);
    await deleteRoleRow(tx, name);
    transaction.audit(caller, { targets: [name] });
    return { role: null, refusals: [] };
  });
}

export function unknownRoles(
  names: readonly string[],
  known: readonly RoleRow[],
  pathOf: (role: string) => readonly string[],
): Refusal[] {
  return names
    .filter((name) => known.every((role) => role.name !== name))
    .map((name) => notFound(`There is no role ${name}. The query \`roles\` lists all of them.`, [name], pathOf(name)));
}

function wantedFlaws(roles: readonly WantedRole[]): Refusal[] {
  return roles.flatMap(({ role, expiresAt }, index): Refusal[] => {
    const path = ["input", "roles", String(index)];
    if (roles.findIndex((one) => one.role === role) < index)
      return [invalidInput(`The role ${role} is given twice.`, [...path, "role"])];
    const late = `The grant of ${role} would have expired already. Use a later time.`;
    return flawIf(expiresAt != null && expiresAt <= new Date(), late, [...path, "expiresAt"]);
  });
}

const FORMS = "account:<name>, user:<issuer>:<subject> or group:<issuer>:<group>";

/** The principal as it is stored. */
export async function knownPrincipal(
  reader: Reader,
  { principals }: AccessContext,
  given: string,
  path: readonly string[] = ["input", "principal"],
): Promise<string> {
  const account = /^account:(.+)$/s.exec(given)?.[1];
  if (account !== undefined) return `account:${(await knownAccount(reader, account, path)).name}`;
  const issuer = /^(?:user|group):([^:]+):./s.exec(given)?.[1];
  requireNone(textFlaws("principal", given, DESCRIPTION_LENGTH_MAX));
  if (issuer === undefined) throw new RefusalError([invalidInput(`Invalid principal: use ${FORMS}.`, path)]);
  if (!principals.issuers.includes(issuer)) {
    const known = principals.issuers.length === 0 ? "none is" : `${listed(principals.issuers)} is`;
    throw new RefusalError([
      notFound(`There is no issuer ${issuer}; in OSTLER_OIDC ${known} configured.`, [issuer], path),
    ]);
  }
  return given;
}

function builtInFlaws(role: RoleRow | undefined): Refusal[] {
  const message = `The role ${role?.name} is built in and never changes. Use another name.`;
  return flawIf(role?.isBuiltIn === true, message, ["input", "name"]);
}

function inUse(role: string, users: readonly string[]): Refusal {
  const message = `The role ${role} is in use by ${listed(users)}. Remove it there first.`;
  return { code: "IN_USE", message, path: ["input", "name"] };
}
