/** Talking GraphQL to a replica as a client of any make does: plain HTTP, with a token and a bound on patience. */
/** What the replicas of the arena want to be shown. */
export const TOKEN = "chaos-token-0123456789";

export interface Answered<Data> {
  readonly data: Data | null;
  readonly errors: readonly { readonly message: string; readonly extensions?: { readonly code?: string } }[];
  readonly status: number;
}

/** Throws when there is no answer, half of one, or one that is not GraphQL. */
export async function ask<Data>(
  url: string,
  query: string,
  variables: Readonly<Record<string, unknown>>,
  patienceMs: number,
): Promise<Answered<Data>> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify({ query, variables }),
    signal: AbortSignal.timeout(patienceMs),
  });
  const { data = null, errors = [] } = (await response.json()) as Partial<Answered<Data>>;
  return { data, errors, status: response.status };
}

/** The UUID inside the global ID of a run. */
export function runIdOf(id: string): string {
  return Buffer.from(id, "base64url").toString("utf8").replace(/^Run:/, "");
}
