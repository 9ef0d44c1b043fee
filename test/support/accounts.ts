/** Accounts of a service under test, made as an administrator makes them. */
import { expect } from "vitest";
import { inputTypeOf } from "./input-type.ts";
import type { ServiceUnderTest, Variables } from "./service.ts";

export interface TestAccount {
  readonly name: string;
  /** Its token, and the ID of the token. */
  readonly token: string;
  readonly tokenId: string;
}

/** The payload of a mutation. */
export interface EditPayload {
  readonly errors: readonly { readonly code: string; readonly message: string }[];
  readonly secret?: string | null;
  readonly token?: { readonly tokenId: string } | null;
}

type GivenRole = string | { readonly role: string };

let made = 0;

/** Requests of the administrator. */
export function administratorOf(ostler: Pick<ServiceUnderTest, "query">) {
  /** The payload of a mutation, refused or not. */
  async function request(mutation: string, input: Variables): Promise<EditPayload> {
    const own = mutation === "createToken" ? "secret token { tokenId }" : "";
    const data = await ostler.query<Record<string, EditPayload>>(
      `mutation Edit($input: ${inputTypeOf(mutation)}!) { ${mutation}(input: $input) { ${own} errors { code message path } } }`,
      { input },
    );
    return data[mutation] ?? { errors: [] };
  }
  /** The same; a refusal fails the test. */
  async function edit(mutation: string, input: Variables): Promise<EditPayload> {
    const payload = await request(mutation, input);
    expect(payload.errors, mutation).toEqual([]);
    return payload;
  }
  const setRoles = async (name: string, ...roles: readonly GivenRole[]) =>
    edit("setRoles", {
      principal: `account:${name}`,
      roles: roles.map((role) => (typeof role === "string" ? { role } : role)),
    });
  /** `more`: further members of the input. */
  const createToken = async (name: string, more: Variables = {}) => {
    const { secret, token } = await edit("createToken", { account: name, ...more });
    return { token: secret ?? "", tokenId: token?.tokenId ?? "" };
  };
  /** A new account with a token; `token`: members of its input. */
  async function accountWith({
    name = `caller-${(made += 1)}`,
    roles,
    token = {},
  }: {
    readonly name?: string;
    readonly roles: readonly GivenRole[];
    readonly token?: Variables;
  }): Promise<TestAccount> {
    await edit("createAccount", { name });
    await setRoles(name, ...roles);
    return { name, ...(await createToken(name, token)) };
  }
  return {
    request,
    edit,
    setRoles,
    createToken,
    accountWith,
    account: (...roles: readonly GivenRole[]) => accountWith({ roles }),
    revoke: async ({ tokenId }: Pick<TestAccount, "tokenId">) => edit("revokeTokens", { tokens: { ids: [tokenId] } }),
  };
}

export function as(token: string): { readonly authorization: string } {
  return { authorization: `Bearer ${token}` };
}
