/** Roles, and their grants to principals. */
import { and, eq, isNull, sql } from "drizzle-orm";
import type { Scope } from "../../lifecycle/scopes.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { allRows, deleteBy, rowsBy } from "../postgres/table-queries.ts";
import { accounts, grants, roles } from "../tables.ts";

export type RoleRow = typeof roles.$inferSelect;
export type GrantRow = typeof grants.$inferSelect;

/** All roles, by name. */
export const allRoles = allRows(roles, roles.name);

/** All grants, by principal and role; those that have expired too. */
export const allGrants = allRows(grants, grants.principal, grants.role);

const grantsBy = rowsBy(grants, grants.principal, { orderBy: [grants.role] });

/** The grants of principals, by role; those that have expired too. */
export async function grantsOfPrincipals(
  reader: Reader,
  principals: readonly string[],
): Promise<Map<string, GrantRow[]>> {
  return Map.groupBy(await grantsBy(reader, principals), ({ principal }) => principal);
}

export const rolesByNames = rowsBy(roles, roles.name);

/** Stores a role; its grants and tokens follow it. */
export async function putRoleRow(
  tx: Tx,
  row: { readonly name: string; readonly scope: Scope; readonly description: string | null },
): Promise<void> {
  await tx.insert(roles).values(row).onConflictDoUpdate({ target: roles.name, set: row });
}

export const deleteRoleRow = deleteBy(roles, roles.name);

/** Replaces the grants of a principal, and returns those that it had. */
export async function replaceGrants(
  tx: Tx,
  principal: string,
  next: readonly Pick<GrantRow, "role" | "expiresAt" | "grantedBy">[],
): Promise<GrantRow[]> {
  const before = await tx.delete(grants).where(eq(grants.principal, principal)).returning();
  if (next.length > 0) await tx.insert(grants).values(next.map((one) => ({ principal, ...one })));
  return before;
}

/** How many grants of ADMIN do not expire; those of disabled accounts do not count. */
export async function countAdministrators(reader: Reader): Promise<number> {
  const isDisabled = sql`exists (select from ${accounts} where ${grants.principal} = 'account:' || ${accounts.name} and ${accounts.disabledAt} is not null)`;
  const rows = await reader
    .select({ principal: grants.principal })
    .from(grants)
    .innerJoin(roles, eq(roles.name, grants.role))
    .where(and(eq(roles.scope, "ADMIN"), isNull(grants.expiresAt), sql`not ${isDisabled}`));
  return rows.length;
}

/** The principals that have a role. */
export async function principalsOfRole(reader: Reader, role: string): Promise<string[]> {
  const rows = await reader.select({ principal: grants.principal }).from(grants).where(eq(grants.role, role));
  return rows.map(({ principal }) => principal);
}
