/** Requests of commands to the API of a running service. */
import { readFileSync } from "node:fs";
import { Agent, fetch } from "undici";
import type { Dispatcher, Response } from "undici";
import { ConfigError } from "../config/values.ts";
import { messageOf } from "../errors.ts";

export interface Endpoint {
  /** Without the path. */
  readonly url: string;
  readonly token: string | null;
  /** Connections with another trust than that of Node. */
  readonly dispatcher?: Dispatcher;
}

/** Connections to the service on this host, whose certificate is that of its own file, whatever the name in it. */
export function trusting(certFile: string): Dispatcher {
  try {
    const ca = readFileSync(certFile);
    return new Agent({ connect: { ca, allowPartialTrustChain: true, checkServerIdentity: () => undefined } });
  } catch (error) {
    throw new ConfigError(
      `The file ${certFile} of OSTLER_TLS_CERT cannot be read: ${messageOf(error)}. Check its path, or give the address of the service with --url.`,
    );
  }
}

/** Throws a `ConfigError` if the service cannot be reached or rejects the request. */
export async function graphqlRequest<Data>(
  { url, token, dispatcher }: Endpoint,
  query: string,
  variables: Readonly<Record<string, unknown>>,
): Promise<Data> {
  let response: Response;
  try {
    response = await fetch(new URL("/graphql", url), {
      method: "POST",
      headers: { "content-type": "application/json", ...(token !== null && { authorization: `Bearer ${token}` }) },
      body: JSON.stringify({ query, variables }),
      ...(dispatcher && { dispatcher }),
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
