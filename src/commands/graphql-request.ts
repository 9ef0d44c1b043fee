/** Requests of commands to the API of a running service. */
import { readFileSync } from "node:fs";
import { Agent, fetch } from "undici";
import type { Pool, Response } from "undici";
import type { Config } from "../config/config.ts";
import { ConfigError } from "../config/values.ts";
import { messageOf } from "../errors.ts";

export interface Endpoint {
  /** Without the path. */
  readonly url: string;
  readonly token: string | null;
  /** Connections with another trust than that of Node. */
  readonly connect?: NonNullable<Pool.Options["connect"]>;
}

/** The service that a command speaks to: at `url`, or the one on this host. */
export function endpointOf({ host, port, tls, token }: Config, url: string | undefined): Endpoint {
  if (url !== undefined) return { url: checkedUrl(url), token };
  const local = `${tls === null ? "http" : "https"}://${hostInUrl(host)}:${port}`;
  return { url: local, token, ...(tls !== null && { connect: trusting(tls.cert) }) };
}

function checkedUrl(given: string): string {
  if (URL.canParse(given) && /^https?:/.test(given)) return given;
  throw new ConfigError(`--url is ${JSON.stringify(given)}. Use an address such as http://127.0.0.1:4000.`);
}

/** A service that listens on all addresses is reached on loopback. */
function hostInUrl(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "127.0.0.1";
  return host.includes(":") ? `[${host}]` : host;
}

/** Connections to the service on this host, whose certificate is that of its own file, whatever the name in it. */
function trusting(certFile: string): NonNullable<Endpoint["connect"]> {
  try {
    return { ca: readFileSync(certFile), allowPartialTrustChain: true, checkServerIdentity: () => undefined };
  } catch (error) {
    throw new ConfigError(
      `The file ${certFile} of OSTLER_TLS_CERT cannot be read: ${messageOf(error)}. Check its path, or give the address of the service with --url.`,
    );
  }
}

/** Throws a `ConfigError` if the service cannot be reached or rejects the request. */
export async function graphqlRequest<Data>(
  { url, token, connect }: Endpoint,
  query: string,
  variables: Readonly<Record<string, unknown>>,
): Promise<Data> {
  let response: Response;
  try {
    response = await fetch(new URL("/graphql", url), {
      method: "POST",
      headers: { "content-type": "application/json", ...(token !== null && { authorization: `Bearer ${token}` }) },
      body: JSON.stringify({ query, variables }),
      ...(connect && { dispatcher: new Agent({ connect }) }),
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

/** Carries out a mutation, whose payload has the field `errors`. Throws a `ConfigError` with their messages. */
export async function mutate<Payload>(
  endpoint: Endpoint,
  mutation: string,
  { input, fields = "" }: { readonly input: Readonly<Record<string, unknown>>; readonly fields?: string },
): Promise<Payload> {
  const type = `${mutation.slice(0, 1).toUpperCase()}${mutation.slice(1)}Input!`;
  const text = `mutation Command($input: ${type}) { answer: ${mutation}(input: $input) { ${fields} errors { message } } }`;
  const { answer } = await graphqlRequest<{
    readonly answer: Payload & { readonly errors: readonly { readonly message: string }[] };
  }>(endpoint, text, { input });
  if (answer.errors.length > 0) throw new ConfigError(answer.errors.map(({ message }) => message).join("\n"));
  return answer;
}
