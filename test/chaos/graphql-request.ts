/** GraphQL over plain HTTP, as any client sends it, with a token and a timeout. */
/** Token that the replicas of the arena require. */
export const TOKEN = "chaos-token-0123456789";

export interface Answered<Data> {
  readonly data: Data | null;
  readonly errors: readonly { readonly message: string; readonly extensions?: { readonly code?: string } }[];
  readonly status: number;
}

export interface AskOptions {
  readonly timeoutMs: number;
  readonly token: string;
  /** Names the request in the audit. */
  readonly requestId: string;
}

/** Throws if the answer is missing, incomplete or not GraphQL. */
export async function ask<Data>(
  url: string,
  query: string,
  variables: Readonly<Record<string, unknown>>,
  { timeoutMs, token, requestId }: AskOptions,
): Promise<Answered<Data>> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${token}`,
      "x-request-id": requestId,
    },
    body: JSON.stringify({ query, variables }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const { data = null, errors = [] } = (await response.json()) as Partial<Answered<Data>>;
  return { data, errors, status: response.status };
}

/** The UUID inside the global ID of a run. */
export function runIdOf(id: string): string {
  return Buffer.from(id, "base64url").toString("utf8").replace(/^Run:/, "");
}
