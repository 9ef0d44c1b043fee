/** Accounts, and their tokens. */
import type { AccountEdited } from "../../../engine/access/accounts.ts";
import type { TokenChoice, TokenCreated, TokensRevoked } from "../../../engine/access/tokens.ts";
import { accountsByIds, allAccounts } from "../../../store/access/accounts.ts";
import type { AccountRow } from "../../../store/access/accounts.ts";
import { grantsOfPrincipals } from "../../../store/access/grants.ts";
import { tokensByIds, tokensOfAccounts } from "../../../store/access/tokens.ts";
import type { TokenRow } from "../../../store/access/tokens.ts";
import { builder, given, needs } from "../../base/builder.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { variableFlaws } from "../../execution/document-reading.ts";
import { addAccessMutation } from "./access-mutation.ts";
import { BoundDocumentInput, BoundDocumentRef, boundDocumentOf } from "./bound-documents.ts";
import { GrantRef } from "./roles.ts";

export const AccessTokenRef = builder.objectRef<TokenRow>("AccessToken").implement({
  description: "Token of an account. The secret itself is not stored.",
  fields: (t) => ({
    tokenId: t.exposeString("id", { description: "The part of the token after `ost_` that names it; not secret." }),
    role: t.exposeString("role", {
      nullable: true,
      description: "Role that is the most the token may do; null for all that its account may.",
    }),
    description: t.string({
      description: "Purpose, in the operator's words; empty if none is given.",
      resolve: ({ description }) => description ?? "",
    }),
    documents: t.field({
      type: [BoundDocumentRef],
      description: "The only documents that it sends; empty if it sends any.",
      resolve: ({ documents }) => [...(documents ?? [])],
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "Time of creation." }),
    createdBy: t.exposeString("createdBy", { description: "Who created it." }),
    expiresAt: t.expose("expiresAt", { type: "DateTime", description: "Time from which it is refused." }),
    revokedAt: t.expose("revokedAt", {
      type: "DateTime",
      nullable: true,
      description: "Time of its revocation; null if it is not revoked.",
    }),
    revokedBy: t.exposeString("revokedBy", { nullable: true, description: "Who revoked it; null as above." }),
    lastUsedAt: t.expose("lastUsedAt", {
      type: "DateTime",
      nullable: true,
      description: "Time of its last use, to the minute; null if it was never used.",
    }),
  }),
});

const AccountRef = builder.objectRef<AccountRow>("Account").implement({
  description: "Program, or person of a site without an issuer. It has tokens and no password. It is never deleted.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Unique name. It never changes." }),
    displayName: t.exposeString("displayName", {
      nullable: true,
      description: "Name for people; null if it has none.",
    }),
    disabled: t.boolean({
      description: "Whether its tokens are refused.",
      resolve: ({ disabledAt }) => disabledAt !== null,
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "Time of creation." }),
    createdBy: t.exposeString("createdBy", { description: "Who created it." }),
    grants: t.field({
      type: [GrantRef],
      description: "Its roles, also expired ones.",
      resolve: ({ name }, _args, { load }) => load.below(grantsOfPrincipals, `account:${name}`, null, []),
    }),
    tokens: t.field({
      type: [AccessTokenRef],
      description: "Its tokens, newest first, also those that have ended.",
      resolve: ({ id }, _args, { load }) => load.below(tokensOfAccounts, id, null, []),
    }),
  }),
});

builder.queryField("accounts", (t) =>
  t.field({
    type: [AccountRef],
    ...needs("ADMIN"),
    description: "All accounts, sorted by name.",
    resolve: (_root, _args, { services }) => allAccounts(services.database.reader),
  }),
);

// ---- mutations

/** The payload of a mutation after which the account exists. */
function accountPayload(mutation: string) {
  return payloadType<AccountEdited>(mutation, (t) => ({
    account: t.field({
      type: AccountRef,
      nullable: true,
      description: "The account after the change; null if the request was refused.",
      resolve: async ({ accountId }, _args, { services }) =>
        accountId === null ? null : ((await accountsByIds(services.database.reader, [accountId]))[0] ?? null),
    }),
    ...refusalFields(t, "Every reason why the request was refused; empty if it succeeded."),
  }));
}

addAccessMutation("createAccount", {
  description: "Create an account. It may do nothing until setRoles gives it a role.",
  input: builder.inputType("CreateAccountInput", {
    description: "Name of a new account.",
    fields: (t) => ({
      name: t.string({
        required: true,
        description: "Unique name: 1–253 letters, digits, dots, dashes or underscores.",
      }),
      displayName: t.string({ description: "Name for people; at most 1000 characters." }),
    }),
  }),
  argument: "The account.",
  payload: accountPayload("createAccount"),
  run: (input, engine, caller) => engine.createAccount(caller, input),
});

addAccessMutation("updateAccount", {
  description:
    "Disable or enable an account, or change its name for people. While it is disabled its tokens are refused.",
  input: builder.inputType("UpdateAccountInput", {
    description: "Changes to an account. Omitted fields stay as they are.",
    fields: (t) => ({
      account: t.string({ required: true, description: "Name of the account." }),
      displayName: t.string({ description: "New name for people; null removes it." }),
      disabled: t.boolean({ description: "Whether its tokens are refused." }),
    }),
  }),
  argument: "Changes to make.",
  payload: accountPayload("updateAccount"),
  run: ({ account, displayName, disabled }, engine, caller) =>
    engine.updateAccount(caller, account, { displayName, disabled: given(disabled) }),
});

addAccessMutation("createToken", {
  description: "Create a token of an account. The payload has its secret once; it is not stored.",
  input: builder.inputType("CreateTokenInput", {
    description: "Account and limits of a new token.",
    fields: (t) => ({
      account: t.string({ required: true, description: "Name of the account." }),
      role: t.string({
        description:
          "Role that is the most the token may do. The account needs a grant as well: the lower of both counts at any time. By default all that the account may.",
      }),
      description: t.string({ description: "Purpose; at most 1000 characters." }),
      expiresInDays: t.int({ description: "Days until it expires, 1 to 366. Default 90." }),
      documents: t.field({
        type: [BoundDocumentInput],
        description: "The only documents that it sends, 1 to 100. The role counts as well. By default it sends any.",
      }),
    }),
  }),
  argument: "The token.",
  payload: payloadType<TokenCreated>("createToken", (t) => ({
    token: t.field({
      type: AccessTokenRef,
      nullable: true,
      description: "The token without its secret; null if the request was refused.",
      resolve: async ({ tokenId }, _args, { services }) =>
        tokenId === null ? null : ((await tokensByIds(services.database.reader, [tokenId]))[0] ?? null),
    }),
    secret: t.exposeString("secret", {
      nullable: true,
      description: "The token itself, for `Authorization: Bearer …`. Keep it: it is never shown again.",
    }),
    ...refusalFields(t, "Every reason why the request was refused; empty if it succeeded."),
  })),
  run: ({ account, role, description, expiresInDays, documents }, engine, caller, { services }) => {
    const token = {
      account,
      role: given(role),
      description: given(description),
      expiresInDays: given(expiresInDays),
      documents: documents?.map(boundDocumentOf),
    };
    return engine.createToken(caller, token, (text, values) => variableFlaws(services.schema, text, values));
  },
});

const TokenSelector = builder.inputType("TokenSelector", {
  description: "Tokens and sessions to end. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    ids: t.stringList({ description: "By `AccessToken.tokenId`." }),
    account: t.string({
      description: "All tokens of the account of this name, with the sessions that began with them.",
    }),
    subject: t.string({
      description:
        "The sessions of `user:<issuer>:<subject>`, and its JWTs that were issued before; or only the sessions of `account:<name>`.",
    }),
  }),
});

function choiceOf({ ids, account, subject }: typeof TokenSelector.$inferInput): TokenChoice {
  if (subject) return { subject };
  return ids ? { ids } : { account: account ?? "" };
}

addAccessMutation("revokeTokens", {
  description: "Revoke tokens. When it is answered every replica refuses them; open streams end within two seconds.",
  input: builder.inputType("RevokeTokensInput", {
    description: "Tokens that are refused from now on.",
    fields: (t) => ({
      tokens: t.field({ type: TokenSelector, required: true, description: "By their ids, or all of one owner." }),
    }),
  }),
  argument: "The tokens.",
  payload: payloadType<TokensRevoked>("revokeTokens", (t) => ({
    tokens: t.field({
      type: [AccessTokenRef],
      description: "The tokens that this request revoked.",
      resolve: ({ tokenIds }, _args, { services }) => tokensByIds(services.database.reader, tokenIds),
    }),
    sessionsEnded: t.exposeInt("sessionsEnded", {
      description:
        "Sessions of the `subject` that this request ended. A session of a token ends with the token, and is not counted.",
    }),
    ...refusalFields(t, "Every reason why the request was refused; empty if it succeeded."),
  })),
  run: ({ tokens }, engine, caller) => engine.revokeTokens(caller, choiceOf(tokens)),
});
