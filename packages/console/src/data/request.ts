/** Requests over HTTP: one document, its typed answer, or an error that a person understands. */
import { REQUESTS } from "../../requests.ts";
import type { Answers } from "../../requests.ts";
import { noteTime } from "./clock.ts";
import { authorization, currentToken, signedOut } from "./session.ts";

export type Variables = Readonly<Record<string, unknown>>;
export type RequestName = keyof Answers;

interface GraphqlError {
  readonly message: string;
  readonly extensions?: { readonly code?: string };
}

/** Codes that may pass, so that the request is worth repeating (docs/errors.md). */
const PASSING_CODES =
  /^(INTERNAL|CAPACITY|DATABASE_UNAVAILABLE|SHUTTING_DOWN|TIMEOUT|RATE_LIMITED|ISSUER_UNAVAILABLE)$/;
const REQUEST_MS = 60_000;
const NO_TOKEN = "This is not a token: it has other characters than letters, digits and punctuation of ASCII.";

export class RequestError extends Error {
  override readonly name = "RequestError";
  /** Code of the service; null if the answer is not one of the API. */
  readonly code: string | null;
  /** Names the request in the log of the service. */
  readonly requestId: string | null;
  readonly isPassing: boolean;

  constructor(message: string, { code = null, requestId = null, isPassing = false }: Partial<RequestFacts> = {}) {
    super(message);
    this.code = code;
    this.requestId = requestId;
    this.isPassing = isPassing;
  }
}

type RequestFacts = Pick<RequestError, "code" | "requestId" | "isPassing">;

/** Throws unless the service accepts the token. */
export async function checkToken(token: string): Promise<void> {
  if (!/^[!-~]+$/.test(token)) throw new RequestError(NO_TOKEN);
  const body = JSON.stringify({ query: REQUESTS.viewer });
  answerOf(await send(body, { authorization: `Bearer ${token}` }));
}

export async function request<Name extends RequestName>(
  name: Name,
  variables: Variables = {},
  signal?: AbortSignal,
): Promise<Answers[Name]> {
  const token = currentToken();
  try {
    const body = JSON.stringify({ query: REQUESTS[name], variables });
    return answerOf(await send(body, authorization(), signal)) as Answers[Name];
  } catch (error) {
    const isRefused = error instanceof RequestError && error.code === "UNAUTHENTICATED";
    // Unless the person has signed in meanwhile.
    if (isRefused && token === currentToken()) signedOut.set(error.message);
    throw error;
  }
}

/** The data of an answer without errors. */
function answerOf([response, text]: Sent): object {
  const { status, headers } = response;
  const { data, errors } = parsed(text);
  const [first] = errors ?? [];
  if (data && !first) return data;
  const code = first?.extensions?.code ?? (status === 401 ? "UNAUTHENTICATED" : null);
  throw new RequestError(errors?.map(({ message }) => message).join(" ") ?? sentenceOf(status), {
    code,
    requestId: headers.get("x-request-id"),
    // The service answers 200 to what it refuses; a proxy may have sent another status.
    isPassing: code !== "UNAUTHENTICATED" && (code === null || status >= 400 || PASSING_CODES.test(code)),
  });
}

type Sent = readonly [response: Response, text: string];

async function send(body: string, credentials: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Sent> {
  const timeout = AbortSignal.timeout(REQUEST_MS);
  try {
    const response = await fetch("/graphql", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json", ...credentials },
      body,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    noteTime(response);
    return [response, await response.text()];
  } catch (cause) {
    if (signal?.aborted) throw cause;
    const why = timeout.aborted ? "does not answer" : "cannot be reached";
    throw new RequestError(`The service ${why}. Nothing on this page is lost; try again.`, { isPassing: true });
  }
}

/** The parts of an answer; neither if it is not one of the API. */
function parsed(text: string): { readonly data?: object; readonly errors?: readonly GraphqlError[] } {
  try {
    const { data, errors } = JSON.parse(text) as { readonly data?: object; readonly errors?: readonly GraphqlError[] };
    return { ...(data && { data }), ...(Array.isArray(errors) && errors.length > 0 && { errors }) };
  } catch {
    return {};
  }
}

function sentenceOf(status: number): string {
  switch (status) {
    case 413:
      return "The request is larger than the service accepts. Select fewer nodes, or raise OSTLER_BODY_KB.";
    case 421:
      return "The service does not answer at this host name. Add the origin to OSTLER_ORIGINS, or set OSTLER_TOKEN.";
    case 429:
      return "The service has too many requests from here. Try again in a moment.";
    case 401:
      return "The service asks who you are.";
    default:
      return `The answer (status ${status}) is not one of the service: a proxy between may have sent it.`;
  }
}
