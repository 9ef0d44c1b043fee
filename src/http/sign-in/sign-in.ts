/**
 * Sign-in of browsers, below /auth: at an issuer, or in exchange for a token. Both lead to a session, whose cookie the
 * browser sends, and back to the page from which they came.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isRejection } from "../../access/access.ts";
import type { Actor } from "../../access/access.ts";
import type { Authenticator, NoteSession } from "../../access/authenticator.ts";
import { SignInRefusedError } from "../../access/issuer-sign-in.ts";
import type { IssuerSignIn, SignInCheck } from "../../access/issuer-sign-in.ts";
import type { Session } from "../../access/session.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Log } from "../../log.ts";
import { isRecord } from "../../runtime/json-values.ts";
import { LruMap } from "../../runtime/lru-map.ts";
import { GRAPHQL } from "../graphql/graphql.ts";
import { graphqlError, pathOf, readBody, refuseBody, requestIdOf, sendJson } from "../graphql/respond.ts";
import { rejectionStatus, setRejectionHeaders } from "../port/logins.ts";
import type { Logins } from "../port/logins.ts";
import type { Senders } from "../port/senders.ts";
import { SESSION, clearCookie, cookieName, countedSession, isFromOwnPage, readCookie, setCookie } from "./cookies.ts";
import { sendPage } from "./page.ts";
import type { SignInPage } from "./page.ts";

export const AUTH = "/auth/";
/** Time for a sign-in at an issuer. */
const SIGN_IN_SECONDS = 600;
/** Sign-ins that were completed are remembered for longer than that. */
const COMPLETED_MAX = 10_000;
const BODY_BYTES_MAX = 16_384;
const RETURN_LENGTH_MAX = 2_000;

export interface SignInParts {
  readonly authenticator: Pick<Authenticator, "identify" | "begin" | "end" | "isOpen">;
  readonly logins: Logins;
  readonly senders: Senders;
  /** Where people sign in; null: they exchange tokens. */
  readonly issuer: IssuerSignIn | null;
  /** Records sign-ins and sign-outs in the audit. */
  readonly audit: Pick<Engine, "auditIn">;
  readonly log: Log;
}

export class SignIn {
  readonly #parts: SignInParts;
  /** States of sign-ins that were completed here. At other replicas the issuer refuses a code that was used. */
  readonly #completed = new LruMap<string, true>(COMPLETED_MAX);

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /** Answers a request below /auth. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader("cache-control", "no-store");
    const path = pathOf(request);
    const canSignIn = cookieName(SESSION, request, this.#parts.senders) !== null;
    if (!canSignIn && path !== "/auth/session") return this.#page(response, NEEDS_TLS, GRAPHQL);
    switch (`${request.method} ${path}`) {
      case "GET /auth/login":
        return this.#login(request, response);
      case "GET /auth/callback":
        return this.#callback(request, response);
      case "GET /auth/session":
        return this.#show(request, response);
      case "POST /auth/session":
        return this.#exchange(request, response);
      case "POST /auth/logout":
        return this.#logout(request, response);
      case "GET /auth/logout":
        return this.#page(response, { status: 200, notice: "You are signed out." }, GRAPHQL);
      default:
        return sendJson(response, 404, { error: `${request.method} ${path} does not exist.` });
    }
  }

  /** Leads a browser to the sign-in that opens a page without a session, if callers need one; true if it did. */
  async leadsAway(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const { authenticator, senders } = this.#parts;
    const isKnown = await this.#isSignedIn(request);
    // Otherwise the old cookie would be refused in each request of the page.
    if (!isKnown && readCookie(SESSION, request, senders) !== undefined)
      clearCookie(response, request, senders, SESSION);
    const canSignIn = cookieName(SESSION, request, senders) !== null;
    if (isKnown || authenticator.isOpen || !canSignIn || request.headers.authorization !== undefined) return false;
    redirect(response, 302, `${AUTH}login?return=${encodeURIComponent(request.url ?? GRAPHQL)}`);
    return true;
  }

  async #login(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { issuer, senders, log } = this.#parts;
    const returnTo = localPath(parameters(request).get("return"));
    if (await this.#isSignedIn(request)) return redirect(response, 302, returnTo);
    if (issuer === null) return this.#page(response, { status: 200 }, returnTo);
    try {
      const { url, check } = await issuer.begin(this.#redirectUri(request));
      const kept: KeptSignIn = { ...check, returnTo, until: Date.now() + SIGN_IN_SECONDS * 1_000 };
      const value = Buffer.from(JSON.stringify(kept)).toString("base64url");
      setCookie(response, request, senders, { name: nameOf(check.state), value, seconds: SIGN_IN_SECONDS });
      redirect(response, 302, url.href);
    } catch (error) {
      log.warn({ err: error, issuer: issuer.name }, "an issuer does not answer; no one can sign in with it");
      const message = `The issuer ${issuer.name} does not answer. Try again later, or use a token.`;
      this.#page(response, { status: 503, message }, returnTo);
    }
  }

  async #callback(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authenticator, issuer } = this.#parts;
    const kept = this.#take(request, response);
    if (issuer === null || kept === null) return this.#fail(request, response, { status: 400, message: NOT_BEGUN });
    const answer = new URL(this.#redirectUri(request));
    answer.search = parameters(request).toString();
    const found = await issuer.finish(answer, kept).catch((error: unknown) => this.#failureOf(error, issuer.name));
    if ("status" in found) return this.#fail(request, response, found, kept.returnTo);
    this.#signIn(request, response, await authenticator.begin(found, this.#noteOf(request, "LOGIN")));
    redirect(response, 302, kept.returnTo);
  }

  #failureOf(error: unknown, issuer: string): Failure {
    if (error instanceof SignInRefusedError) return { status: 403, message: error.message };
    this.#parts.log.warn({ err: error, issuer }, "a sign-in at an issuer failed");
    return { status: 502, message: `The issuer ${issuer} did not confirm the sign-in. Try it again.` };
  }

  /** The sign-in that this browser began, which it can complete once; null if there is none. */
  #take(request: IncomingMessage, response: ServerResponse): KeptSignIn | null {
    const { senders } = this.#parts;
    const state = parameters(request).get("state") ?? "";
    const name = nameOf(state);
    const kept = keptOf(readCookie(name, request, senders));
    if (kept === null || kept.state !== state || kept.until < Date.now() || this.#completed.has(state)) return null;
    this.#completed.set(state, true);
    clearCookie(response, request, senders, name);
    return kept;
  }

  /** The session of the page that asks, the issuer of people, and whether callers are served without a sign-in. */
  async #show(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authenticator, senders } = this.#parts;
    const service = { issuer: this.#parts.issuer?.name ?? null, isOpen: authenticator.isOpen };
    const actor = await this.#actorOf(request, countedSession(request, senders));
    if (!actor) return sendJson(response, 200, { session: null, ...service });
    const { subject, displayName, identity } = actor;
    sendJson(response, 200, { session: { subject, displayName, expiresAt: identity.expiresAt }, ...service });
  }

  async #exchange(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authenticator, logins, senders } = this.#parts;
    // A page of another origin could sign a browser in as its own user.
    const isFromPage = request.headers.origin !== undefined || request.headers["sec-fetch-site"] !== undefined;
    if (isFromPage && !isFromOwnPage(request, senders)) return refuseForeign(response);
    if (cookieName(SESSION, request, senders) === null) return this.#page(response, NEEDS_TLS, GRAPHQL);
    const body = await readBody(request, BODY_BYTES_MAX);
    if (body === null) return refuseBody(request, response, NO_TOKEN);
    const form = formOf(request, body.toString());
    if (form === null) return sendJson(response, 400, NO_TOKEN);
    const { token, returnTo, isPage } = form;
    const refuse = (status: number, message: string, code: Parameters<typeof graphqlError>[1]) =>
      isPage
        ? this.#page(response, { status, message }, returnTo)
        : sendJson(response, status, graphqlError(message, code));
    const found = await logins.identify(request, token === "" ? undefined : `Bearer ${token}`);
    if (isRejection(found)) {
      const { status, code } = rejectionStatus(found);
      setRejectionHeaders(response, status);
      return refuse(status, found.message, code);
    }
    if (found.identity.kind !== "API_TOKEN" && found.identity.kind !== "CONFIGURED")
      return refuse(400, "Only a token of an account, or the configured one, can be exchanged.", "BAD_REQUEST");
    if (found.identity.documents !== null) {
      const message = "The token is bound to documents, and cannot be exchanged for a session.";
      logins.noteFailure(request, token, { code: "FORBIDDEN", message, owner: found.identity });
      return refuse(403, message, "FORBIDDEN");
    }
    const session = await authenticator.begin(found.identity, this.#noteOf(request, "LOGIN"));
    this.#signIn(request, response, session);
    if (isPage) return redirect(response, 303, returnTo);
    sendJson(response, 201, { session: { subject: session.subject, expiresAt: session.expiresAt } });
  }

  async #logout(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authenticator, senders } = this.#parts;
    if (!isFromOwnPage(request, senders)) return refuseForeign(response);
    const actor = await this.#actorOf(request, countedSession(request, senders));
    if (actor) await authenticator.end(actor, this.#noteOf(request, "LOGOUT"));
    clearCookie(response, request, senders, SESSION);
    redirect(response, 303, `${AUTH}logout`);
  }

  #signIn(request: IncomingMessage, response: ServerResponse, { secret, expiresAt }: Session): void {
    const seconds = Math.floor((expiresAt.getTime() - Date.now()) / 1_000);
    setCookie(response, request, this.#parts.senders, { name: SESSION, value: secret, seconds });
  }

  #fail(request: IncomingMessage, response: ServerResponse, failure: Failure, returnTo = GRAPHQL): void {
    const { message } = failure;
    this.#parts.logins.noteFailure(request, parameters(request).get("code") ?? undefined, {
      code: "UNAUTHENTICATED",
      message,
    });
    this.#page(response, failure, returnTo);
  }

  #page(response: ServerResponse, page: Omit<SignInPage, "returnTo" | "issuer">, returnTo: string): void {
    sendPage(response, { ...page, returnTo, issuer: this.#parts.issuer?.name ?? null });
  }

  #noteOf(request: IncomingMessage, action: "LOGIN" | "LOGOUT"): NoteSession {
    const { audit, senders } = this.#parts;
    const [address, requestId] = [senders.addressOf(request), requestIdOf(request)];
    // Rows of what the session does have its ID as their credential.
    return (tx, { id, ...who }) =>
      audit.auditIn(
        tx,
        { ...who, action, address, requestId, transport: "HTTP" },
        { outcome: "ACCEPTED", targets: [id] },
      );
  }

  async #isSignedIn(request: IncomingMessage): Promise<boolean> {
    // A link of another page may open this one: only where the browser is led depends on it.
    return (await this.#actorOf(request, readCookie(SESSION, request, this.#parts.senders))) !== null;
  }

  async #actorOf(request: IncomingMessage, session: string | undefined): Promise<Actor | null> {
    if (session === undefined) return null;
    const address = this.#parts.senders.addressOf(request);
    const found = await this.#parts.authenticator.identify({ authorization: undefined, session, address });
    return isRejection(found) ? null : found;
  }

  #redirectUri(request: IncomingMessage): string {
    const { issuer, senders } = this.#parts;
    const here = `${senders.isSecure(request) ? "https" : "http"}://${request.headers.host ?? ""}`;
    return `${issuer?.baseUrl ?? here}${AUTH}callback`;
  }
}

interface Failure {
  readonly status: number;
  readonly message: string;
}

interface KeptSignIn extends SignInCheck {
  readonly returnTo: string;
  readonly until: number;
}

const NO_TOKEN = graphqlError('Send the token as {"token": "…"} in JSON, or as a form.', "BAD_REQUEST");
const NOT_BEGUN =
  "This sign-in was not begun in this browser, was completed already, or took more than ten minutes. Begin again.";
const NEEDS_TLS = {
  status: 403,
  message:
    "Signing in needs https. An operator sets OSTLER_TLS_CERT and OSTLER_TLS_KEY, or names the network of the proxy that ends TLS in OSTLER_PROXIES.",
};

/** Several pages of a browser may sign in at the same time. */
function nameOf(state: string): string {
  return `ostler-login-${/^[\w-]+/.exec(state)?.[0].slice(0, 16) ?? ""}`;
}

function keptOf(value: string | undefined): KeptSignIn | null {
  try {
    const kept: unknown = JSON.parse(Buffer.from(value ?? "", "base64url").toString());
    if (!isRecord(kept)) return null;
    const [state, nonce, verifier, returnTo] = ["state", "nonce", "verifier", "returnTo"].map((name) =>
      String(kept[name]),
    );
    return state && nonce && verifier
      ? { state, nonce, verifier, returnTo: localPath(returnTo ?? null), until: Number(kept["until"]) }
      : null;
  } catch {
    return null;
  }
}

/** A path of this service; that of GraphiQL in place of anything else. */
function localPath(given: string | null): string {
  const base = "http://ostler.invalid";
  const url = given === null || given.length > RETURN_LENGTH_MAX ? null : URL.parse(given, base);
  if (url?.origin !== base || !given?.startsWith("/")) return GRAPHQL;
  return /^\/(?!\/|auth\/)/.test(url.pathname) ? `${url.pathname}${url.search}` : GRAPHQL;
}

interface TokenForm {
  readonly token: string;
  readonly returnTo: string;
  /** Whether a page sent it, which shows the answer. */
  readonly isPage: boolean;
}

function formOf({ headers }: IncomingMessage, body: string): TokenForm | null {
  const type = headers["content-type"] ?? "";
  if (/^application\/x-www-form-urlencoded\b/i.test(type)) {
    const form = new URLSearchParams(body);
    return { token: form.get("token")?.trim() ?? "", returnTo: localPath(form.get("return")), isPage: true };
  }
  if (body === "") return { token: "", returnTo: GRAPHQL, isPage: false };
  if (!/^application\/json\b/i.test(type)) return null;
  try {
    const given: unknown = JSON.parse(body);
    return isRecord(given) && typeof given["token"] === "string"
      ? { token: given["token"], returnTo: GRAPHQL, isPage: false }
      : null;
  } catch {
    return null;
  }
}

function refuseForeign(response: ServerResponse): void {
  sendJson(response, 403, graphqlError("Only a page of this service itself may send this request.", "FORBIDDEN"));
}

function parameters({ url = "" }: IncomingMessage): URLSearchParams {
  return new URLSearchParams(url.includes("?") ? url.slice(url.indexOf("?")) : "");
}

function redirect(response: ServerResponse, status: number, location: string): void {
  response.setHeader("cache-control", "no-store");
  response.writeHead(status, { location }).end();
}
