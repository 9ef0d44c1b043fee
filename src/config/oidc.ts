/**
 * The file of OSTLER_OIDC: issuers of JWTs, and the client with which people sign in at one of them. Every flaw is a
 * sentence that names the member; no sentence has a secret.
 */
import { readFileSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { messageOf } from "../errors.ts";
import { isRecord } from "../runtime/json-values.ts";
import { ConfigError, isConfidential } from "./values.ts";

/** Names of nested members, from the outside. */
export type ClaimPath = readonly string[];

export interface IssuerConfig {
  /** The name in principals, as `user:<name>:<subject>`. */
  readonly name: string;
  /** The exact `iss` of its tokens, and where its discovery document is. */
  readonly issuer: string;
  /** The `aud` of accepted JWTs; empty: none are accepted. */
  readonly audiences: readonly string[];
  /** Where its keys are; null: where its discovery document says. */
  readonly keys: { readonly uri: string } | { readonly file: string } | null;
  readonly claims: Readonly<Record<"subject" | "name" | "groups", ClaimPath>>;
  /** Claims that must have, or contain, these values. */
  readonly requiredClaims: Readonly<Record<string, unknown>>;
  /** The client with which browsers sign in; null: they do not sign in at this issuer. */
  readonly client: ClientConfig | null;
}

export interface ClientConfig {
  readonly clientId: string;
  /** Null: a public client. */
  readonly clientSecret: string | null;
  readonly scopes: readonly string[];
  /** Where browsers reach the service; null: at the host of the request. */
  readonly baseUrl: string | null;
}

const MEMBERS = ["name", "issuer", "audiences", "jwksUri", "jwksFile", "claims", "requiredClaims", "client"];
const CLIENT_MEMBERS = ["clientId", "clientSecret", "clientSecretFile", "scopes", "baseUrl"];
const CLAIMS = { subject: ["sub"], name: ["name"], groups: ["groups"] };
const SCOPES = ["openid", "profile"];
/** The permission of everyone to read a file. */
const READ_BY_ALL = 0o004;

/** The issuers; none without a file. Throws a `ConfigError` with all flaws. */
export function issuersOf(path: string): readonly IssuerConfig[] {
  if (path === "") return [];
  const reader = new FileReader(path);
  const issuers = reader.issuers();
  if (reader.flaws.length > 0)
    throw new ConfigError(reader.flaws.map((flaw) => `The file ${path} of OSTLER_OIDC: ${flaw}`).join("\n"));
  return Object.freeze(issuers);
}

type Json = Readonly<Record<string, unknown>>;

class FileReader {
  readonly flaws: string[] = [];
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  issuers(): IssuerConfig[] {
    const file = this.#file(this.#path, "it");
    if (file === null) return [];
    let content: unknown;
    try {
      content = JSON.parse(file.text);
    } catch (error) {
      this.#flaw(`it is not valid JSON: ${messageOf(error)}. Correct it.`);
      return [];
    }
    const { issuers: given } = this.#object(content, "it", ["issuers"]);
    if (!Array.isArray(given) || given.length === 0) {
      this.#flaw("`issuers` must be a list with at least one issuer.");
      return [];
    }
    const issuers = given.map((one: unknown, index) => this.#issuer(one, `issuers[${index}]`));
    for (const member of ["name", "issuer"] as const) {
      const values = issuers.map((one) => one[member]);
      const twice = values.find((value, index) => value !== "" && values.indexOf(value) < index);
      if (twice !== undefined) this.#flaw(`two issuers have the ${member} ${twice}. Give each its own.`);
    }
    if (issuers.filter(({ client }) => client !== null).length > 1)
      this.#flaw("more than one issuer has a `client`. Browsers sign in at one; remove the others.");
    const hasSecret = given.some((one) => isRecord(one) && isRecord(one["client"]) && one["client"]["clientSecret"]);
    if (hasSecret && file.isPublic)
      this.#flaw(
        `it has a client secret, and every user of this host can read it. Run chmod o= ${this.#path}, or use \`clientSecretFile\`.`,
      );
    return issuers;
  }

  #issuer(value: unknown, at: string): IssuerConfig {
    const given = this.#object(value, at, MEMBERS);
    const name = this.#text(given, "name", at) ?? "";
    if (name !== "" && !/^[A-Za-z0-9._-]{1,63}$/.test(name))
      this.#flaw(`\`${at}.name\` is ${JSON.stringify(name)}. Use 1–63 letters, digits, dots, dashes or underscores.`);
    const audiences = this.#texts(given, "audiences", at) ?? [];
    const client = given["client"] === undefined ? null : this.#client(given["client"], `${at}.client`);
    if (audiences.length === 0 && client === null)
      this.#flaw(`\`${at}\` has neither \`audiences\` nor a \`client\`. Name the audience of its JWTs, or the client.`);
    if (client !== null && audiences.includes(client.clientId))
      this.#flaw(
        `\`${at}.audiences\` has the \`clientId\` of the sign-in, which ID tokens have. Use an audience of its own for JWTs.`,
      );
    return {
      name,
      issuer: this.#url(given, "issuer", at) ?? "",
      audiences,
      keys: this.#keys(given, at),
      claims: this.#claims(given["claims"] ?? {}, `${at}.claims`),
      requiredClaims: this.#object(given["requiredClaims"] ?? {}, `${at}.requiredClaims`),
      client,
    };
  }

  #keys(given: Json, at: string): IssuerConfig["keys"] {
    if (given["jwksUri"] !== undefined && given["jwksFile"] !== undefined)
      this.#flaw(`\`${at}\` has both \`jwksUri\` and \`jwksFile\`. Remove one of them.`);
    if (given["jwksUri"] !== undefined) return { uri: this.#url(given, "jwksUri", at) ?? "" };
    if (given["jwksFile"] === undefined) return null;
    const file = this.#relative(this.#text(given, "jwksFile", at) ?? "");
    const what = `the file ${file} of \`${at}.jwksFile\``;
    const found = this.#file(file, what);
    if (found && !hasKeys(found.text))
      this.#flaw(`${what} is not a JSON object with a list \`keys\`. Write a JWKS into it.`);
    return { file };
  }

  #claims(value: unknown, at: string): IssuerConfig["claims"] {
    const given = this.#object(value, at, Object.keys(CLAIMS));
    const pathOf = (name: keyof typeof CLAIMS): ClaimPath => {
      const path = given[name];
      if (path === undefined) return CLAIMS[name];
      const parts = typeof path === "string" ? path.split(".") : path;
      if (isTexts(parts)) return parts;
      this.#flaw(`\`${at}.${name}\` must be a path, as realm_access.roles, or a list of names, for names with dots.`);
      return [];
    };
    return { subject: pathOf("subject"), name: pathOf("name"), groups: pathOf("groups") };
  }

  #client(value: unknown, at: string): ClientConfig {
    const given = this.#object(value, at, CLIENT_MEMBERS);
    const scopes = this.#texts(given, "scopes", at) ?? SCOPES;
    if (!scopes.includes("openid")) this.#flaw(`\`${at}.scopes\` lacks openid. Add it.`);
    const baseUrl = given["baseUrl"] === undefined ? null : URL.parse(this.#url(given, "baseUrl", at) ?? "");
    if (baseUrl && baseUrl.href !== `${baseUrl.origin}/`)
      this.#flaw(
        `\`${at}.baseUrl\` is ${baseUrl.href}. Use scheme, host and optional port, as https://ostler.example.`,
      );
    return {
      clientId: this.#text(given, "clientId", at) ?? "",
      clientSecret: this.#clientSecret(given, at),
      scopes,
      baseUrl: baseUrl?.origin ?? null,
    };
  }

  #clientSecret(given: Json, at: string): string | null {
    if (given["clientSecret"] !== undefined && given["clientSecretFile"] !== undefined)
      this.#flaw(`\`${at}\` has both \`clientSecret\` and \`clientSecretFile\`. Remove one of them.`);
    if (given["clientSecretFile"] === undefined)
      return given["clientSecret"] === undefined ? null : this.#text(given, "clientSecret", at);
    const path = this.#relative(this.#text(given, "clientSecretFile", at) ?? "");
    const what = `the file ${path} of \`${at}.clientSecretFile\``;
    const file = this.#file(path, what);
    if (file?.isPublic) this.#flaw(`${what} can be read by every user of this host. Run chmod o= ${path}.`);
    const secret = file?.text.replace(/\r?\n$/, "") ?? null;
    if (secret === "") this.#flaw(`${what} is empty. Write the secret into it.`);
    return secret;
  }

  #flaw(sentence: string): void {
    this.flaws.push(sentence);
  }

  #object(value: unknown, at: string, members?: readonly string[]): Json {
    const [place, shown] = at === "it" ? ["", "it"] : [`${at}.`, `\`${at}\``];
    if (!isRecord(value)) {
      this.#flaw(`${shown} must be an object.`);
      return {};
    }
    for (const name of Object.keys(value))
      if (members && !members.includes(name))
        this.#flaw(`\`${place}${name}\` is unknown. Known members: ${members.join(", ")}.`);
    return value;
  }

  #text(given: Json, name: string, at: string): string | null {
    const value = given[name];
    if (typeof value === "string" && value !== "") return value;
    this.#flaw(`\`${at}.${name}\` must be a text that is not empty.`);
    return null;
  }

  #texts(given: Json, name: string, at: string): readonly string[] | null {
    const value = given[name];
    if (value === undefined) return null;
    if (isTexts(value)) return value;
    this.#flaw(`\`${at}.${name}\` must be a list of texts that are not empty.`);
    return null;
  }

  /** In clear only to this host: a change to the answers of an issuer lets anyone sign in as anyone. */
  #url(given: Json, name: string, at: string): string | null {
    const text = this.#text(given, name, at);
    if (text === null) return null;
    const url = URL.parse(text);
    if (url === null || !/^https?:$/.test(url.protocol) || url.hash !== "" || url.username !== "")
      this.#flaw(`\`${at}.${name}\` is ${JSON.stringify(text)}. Use a URL, as https://login.example/realms/corp.`);
    else if (!isConfidential(url))
      this.#flaw(`\`${at}.${name}\` is ${text}. Use https; http is accepted only on loopback.`);
    return text;
  }

  #file(path: string, what: string): { readonly text: string; readonly isPublic: boolean } | null {
    try {
      return { text: readFileSync(path, "utf8"), isPublic: (statSync(path).mode & READ_BY_ALL) !== 0 };
    } catch (error) {
      this.#flaw(
        `${what} cannot be read: ${messageOf(error)}. Check its path, and that the user of the service may read it.`,
      );
      return null;
    }
  }

  /** A path is relative to the file that names it. */
  #relative(path: string): string {
    return resolve(dirname(this.#path), path);
  }
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string" && one !== "");
}

function hasKeys(text: string): boolean {
  try {
    const content: unknown = JSON.parse(text);
    return isRecord(content) && Array.isArray(content["keys"]);
  } catch {
    return false;
  }
}
