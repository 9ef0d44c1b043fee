/** Roles, and who has them. */
import type { RoleEdited, RolesEdited } from "../../../engine/access/roles.ts";
import { SCOPE_MEANING } from "../../../lifecycle/scopes.ts";
import { allGrants, allRoles, grantsOfPrincipals } from "../../../store/access/grants.ts";
import type { GrantRow, RoleRow } from "../../../store/access/grants.ts";
import { builder, enumValues, given, needs } from "../../base/builder.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { addAccessMutation } from "./access-mutation.ts";

export const ScopeEnum = builder.enumType("Scope", {
  description: "What a role allows. Each scope includes the ones before it.",
  values: enumValues(SCOPE_MEANING),
});

export const GrantRef = builder.objectRef<GrantRow>("Grant").implement({
  description: "Role of a principal.",
  fields: (t) => ({
    principal: t.exposeString("principal", {
      description: "Who has it: `account:<name>`, `user:<issuer>:<subject>` or `group:<issuer>:<group>`.",
    }),
    role: t.exposeString("role", { description: "Name of the role." }),
    expiresAt: t.expose("expiresAt", {
      type: "DateTime",
      nullable: true,
      description: "Time from which it does not count; null if it does not expire.",
    }),
    grantedAt: t.expose("grantedAt", { type: "DateTime", description: "Time of the request." }),
    grantedBy: t.exposeString("grantedBy", { description: "Who granted it." }),
  }),
});

const RoleRef = builder.objectRef<RoleRow>("Role").implement({
  description: "Name for a scope, which is granted to principals.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Unique name." }),
    scope: t.expose("scope", { type: ScopeEnum, description: "What it allows." }),
    description: t.string({
      description: "Purpose, in the operator's words; empty if none is given.",
      resolve: ({ description }) => description ?? "",
    }),
    builtIn: t.exposeBoolean("isBuiltIn", { description: "Whether the service has it always; then it never changes." }),
  }),
});

builder.queryField("roles", (t) =>
  t.field({
    type: [RoleRef],
    ...needs("ADMIN"),
    description: "All roles, sorted by name.",
    resolve: (_root, _args, { services }) => allRoles(services.database.reader),
  }),
);

builder.queryField("grants", (t) =>
  t.field({
    type: [GrantRef],
    ...needs("ADMIN"),
    description: "All grants, also expired ones, sorted by principal and role.",
    resolve: (_root, _args, { services }) => allGrants(services.database.reader),
  }),
);

// ---- mutations

const RoleGrantInput = builder.inputType("RoleGrantInput", {
  description: "Role, and how long a principal has it.",
  fields: (t) => ({
    role: t.string({ required: true, description: "Name of the role." }),
    expiresAt: t.field({
      type: "DateTime",
      description: "Time from which the grant does not count. By default it does not expire.",
    }),
  }),
});

addAccessMutation("setRoles", {
  description:
    "Replace the roles of a principal. They add up. Open streams of callers whose rights change end with ACCESS_CHANGED.",
  input: builder.inputType("SetRolesInput", {
    description: "Principal and its roles.",
    fields: (t) => ({
      principal: t.string({
        required: true,
        description: "`account:<name>`, `user:<issuer>:<subject>` or `group:<issuer>:<group>`.",
      }),
      roles: t.field({
        type: [RoleGrantInput],
        required: true,
        description: "All roles that it has from now on; an empty list removes every role.",
      }),
    }),
  }),
  argument: "Principal and roles.",
  payload: payloadType<RolesEdited>("setRoles", (t) => ({
    grants: t.field({
      type: [GrantRef],
      description: "The grants of the principal after the change; empty if the request was refused.",
      resolve: ({ principal }, _args, { load }) =>
        principal === null ? [] : load.below(grantsOfPrincipals, principal, null, []),
    }),
    ...refusalFields(t, "Every reason why the request was refused; empty if it succeeded."),
  })),
  run: (input, engine, caller) => engine.setRoles(caller, input),
});

addAccessMutation("putRole", {
  description: "Create a role, or change its scope for all that have it. The built-in roles never change.",
  input: builder.inputType("PutRoleInput", {
    description: "Role to store.",
    fields: (t) => ({
      name: t.string({
        required: true,
        description: "Unique name: 1–253 letters, digits, dots, dashes or underscores.",
      }),
      scope: t.field({ type: ScopeEnum, required: true, description: "What it allows." }),
      description: t.string({ description: "Purpose; at most 1000 characters." }),
    }),
  }),
  argument: "The role.",
  payload: payloadType<RoleEdited>("putRole", (t) => ({
    role: t.field({
      type: RoleRef,
      nullable: true,
      description: "The role after the change; null if the request was refused.",
      resolve: async ({ role }, _args, { services }) =>
        (await allRoles(services.database.reader)).find(({ name }) => name === role) ?? null,
    }),
    ...refusalFields(t, "Every reason why the request was refused; empty if it succeeded."),
  })),
  run: (input, engine, caller) => engine.putRole(caller, { ...input, description: given(input.description) }),
});

addAccessMutation("deleteRole", {
  description: "Delete a role that no principal and no token has.",
  input: builder.inputType("DeleteRoleInput", {
    description: "The name of a role that nothing has.",
    fields: (t) => ({ name: t.string({ required: true, description: "Name of the role." }) }),
  }),
  argument: "Name of the role.",
  payload: payloadType<RoleEdited>("deleteRole", (t) =>
    refusalFields(t, "Reasons why the request was refused; empty if the role was deleted."),
  ),
  run: ({ name }, engine, caller) => engine.deleteRole(caller, name),
});
