/** Requests of commands to the API of a running service. */
import { ConfigError } from "../config/values.ts";
import { messageOf } from "../errors.ts";

export interface Endpoint {
  /** Without the path. */
  readonly url: string;
  readonly token: string | null;
}

/** Throws a `ConfigError` if the service cannot be reached or rejects the request. */
export async function graphqlRequest<Data>(
  { url, token }: Endpoint,
  query: string,
  variables: Readonly<Record<string, unknown>>,
): Promise<Data> {
  let response: Response;
  try {
    response = await fetch(new URL("/graphql", url), {
      method: "POST",
      headers: { "content-type": "application/json", ...(token !== null && { authorization: `Bearer ${token}` }) },
      body: JSON.stringify({ query, variables }),
    });
  } catch (error) {
    const why = messageOf(error instanceof Error && error.cause !== undefined ? error.cause : error);
    throw new ConfigError(`The service at ${url} cannot be reached: ${why}. Give its address with --url.`, {
      cause: error,
    });
  }
  const text = await response.text();
  const { data, errors } = parsed(text);
  if (errors && errors.length > 0) throw new ConfigError(errors.map(({ message }) => message).join(" "));
  if (data === undefined || data === null)
    throw new ConfigError(`The service at ${url} answered with status ${response.status} and no GraphQL result.`);
  return data as Data;
}

function parsed(text: string): { readonly data?: unknown; readonly errors?: readonly { readonly message: string }[] } {
  try {
    return JSON.parse(text) as ReturnType<typeof parsed>;
  } catch {
    return {};
  }
}
