/** The connections of the page: queries and mutations over HTTP with urql, every stream over one WebSocket. */
import type { GraphQLFormattedError } from "graphql";
import { connect } from "ostler-client";
import { Client, fetchExchange } from "urql";

const PATH = "/graphql";
const TOKEN = "ostler-token";
const TRANSIENT = new Set<unknown>(["INTERNAL", "CAPACITY", "DATABASE_UNAVAILABLE"]);

/** Kept for this tab only; null if the service asks for none. */
const token = sessionStorage.getItem(TOKEN);

export function signIn(value: string): void {
  sessionStorage.setItem(TOKEN, value);
  location.reload();
}

export const connection = connect({ url: PATH, ...(token !== null && { token }) });

/** Whether the errors of a request may pass, so that it is worth repeating (docs/errors.md). */
export function isTransient(errors: unknown): boolean {
  return (
    Array.isArray(errors) && errors.some(({ extensions }: GraphQLFormattedError) => TRANSIENT.has(extensions?.["code"]))
  );
}

/** Without a cache: what is shown is followed, and not asked for again. */
export const client = new Client({
  url: PATH,
  preferGetMethod: false,
  fetchOptions: () => ({ headers: { ...(token !== null && { authorization: `Bearer ${token}` }) } }),
  exchanges: [fetchExchange],
});
