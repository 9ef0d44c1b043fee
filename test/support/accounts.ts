/** Accounts of a service under test, made as an administrator makes them. */
import { expect } from "vitest";
import type { ServiceUnderTest, Variables } from "./service.ts";

export interface TestAccount {
  readonly name: string;
  /** Its token, and the ID of the token. */
  readonly token: string;
  readonly tokenId: string;
}

let made = 0;

/** Requests of the administrator; a refusal fails the test. */
export function administratorOf(ostler: Pick<ServiceUnderTest, "query">) {
  async function edit(mutation: string, input: Variables, more = ""): Promise<Record<string, unknown>> {
    const type = `${mutation.slice(0, 1).toUpperCase()}${mutation.slice(1)}Input!`;
    const data = await ostler.query<Record<string, Record<string, unknown>>>(
      `mutation Edit($input: ${type}) { ${mutation}(input: $input) { ${more} errors { code message } } }`,
      { input },
    );
    expect(data[mutation]?.["errors"]).toEqual([]);
    return data[mutation] ?? {};
  }
  const setRoles = async (name: string, ...roles: readonly (string | { readonly role: string })[]) =>
    edit("setRoles", {
      principal: `account:${name}`,
      roles: roles.map((role) => (typeof role === "string" ? { role } : role)),
    });
  const createToken = async (name: string) => {
    const { secret, token } = await edit("createToken", { account: name }, "secret token { tokenId }");
    return { token: String(secret), tokenId: (token as { tokenId: string }).tokenId };
  };
  return {
    setRoles,
    createToken,
    revoke: async ({ tokenId }: Pick<TestAccount, "tokenId">) => edit("revokeTokens", { tokens: { ids: [tokenId] } }),
    /** A new account with these roles and a token. */
    async account(...roles: readonly (string | { readonly role: string })[]): Promise<TestAccount> {
      const name = `caller-${(made += 1)}`;
      await edit("createAccount", { name });
      await setRoles(name, ...roles);
      return { name, ...(await createToken(name)) };
    },
  };
}
