/**
 * Asking a service that runs somewhere, as any client does: plain HTTP, one request, its data or what is wrong with it.
 */

export interface Asking {
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly token?: string | undefined;
  /** Called with the text of the answer, whatever it says. */
  readonly onAnswer?: (text: string) => void;
}

/**
 * The data of an answer without errors; throws what the errors say. `url`: that of the service, as `http://host:port`.
 */
export async function ask<Data = Record<string, unknown>>(
  url: string,
  query: string,
  { variables = {}, token, onAnswer }: Asking = {},
): Promise<Data> {
  const response = await fetch(new URL("/graphql", url), {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({ query, variables }),
  });
  const text = await response.text();
  onAnswer?.(text);
  const { data, errors } = JSON.parse(text) as {
    readonly data: Data;
    readonly errors?: readonly { readonly message: string }[];
  };
  if (errors) throw new Error(errors.map(({ message }) => message).join(" "));
  return data;
}
