/** Requests to a service that a benchmark measures. */

/** The data of the answer to a request. Throws if it has errors. */
export async function request<Data>(
  { url }: { readonly url: string },
  query: string,
  variables: object = {},
  signal?: AbortSignal,
): Promise<Data> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    // Otherwise the service compresses long answers, which would be measured too.
    headers: { "content-type": "application/json", "accept-encoding": "identity" },
    body: JSON.stringify({ query, variables }),
    ...(signal && { signal }),
  });
  const answer = (await response.json()) as { data?: Data | null; errors?: unknown };
  if (answer.errors !== undefined || answer.data === undefined || answer.data === null)
    throw new Error(`The service answered ${JSON.stringify(answer).slice(0, 1_000)}`);
  return answer.data;
}

interface MutationField {
  readonly name: string;
  readonly args: readonly { readonly type: { readonly ofType: { readonly name: string } } }[];
}

const inputTypesOf = new WeakMap<object, Promise<ReadonlyMap<string, string>>>();

/** The input types of the mutations of a build, which may have other names than those of this one. */
export function inputTypes(service: { readonly url: string }): Promise<ReadonlyMap<string, string>> {
  const known = inputTypesOf.get(service) ?? readInputTypes(service);
  inputTypesOf.set(service, known);
  return known;
}

async function readInputTypes(service: { readonly url: string }): Promise<ReadonlyMap<string, string>> {
  const { __schema: schema } = await request<{ __schema: { mutationType: { fields: readonly MutationField[] } } }>(
    service,
    "{ __schema { mutationType { fields { name args { type { ofType { name } } } } } } }",
  );
  return new Map(schema.mutationType.fields.map(({ name, args: [input] }) => [name, input?.type.ofType.name ?? ""]));
}

/** As `request`, for mutations that select `errors`: also throws if there are any. */
export async function mutate<Data extends object>(...given: Parameters<typeof request>): Promise<Data> {
  const data = await request<Data>(...given);
  const isRefused = Object.values(data).some((payload: { errors?: readonly unknown[] }) => payload.errors?.length);
  if (isRefused) throw new Error(`The service refused: ${JSON.stringify(data).slice(0, 1_000)}`);
  return data;
}
