/** Persons and programs by the claims that their issuer makes about them. */
import type { ClaimPath, IssuerConfig } from "../config/oidc.ts";
import { isRecord } from "../runtime/json-values.ts";

export type Claims = Readonly<Record<string, unknown>>;

export interface Person {
  /** `user:<issuer>:<subject>`: no subject can look like another kind of principal. */
  readonly subject: string;
  readonly displayName: string | null;
  /** `group:<issuer>:<group>` each. */
  readonly groups: readonly string[];
}

/** No control or invisible characters. The standard allows 255. */
const NAME = /^\P{C}{1,255}$/u;

/** The person, or why the claims are not accepted: a sentence. */
export function personOf({ name, claims: paths, requiredClaims }: IssuerConfig, claims: Claims): Person | string {
  const lacking = Object.entries(requiredClaims).find(([claim, value]) => !hasValue(claims[claim], value));
  if (lacking) return `The claim ${lacking[0]} does not have the value that the configuration requires.`;
  const subject = at(claims, paths.subject);
  if (!isName(subject)) return `The claim ${paths.subject.join(".")} must be a text of 1–255 visible characters.`;
  const displayName = at(claims, paths.name);
  const groups = [at(claims, paths.groups)].flat().filter(isName);
  return {
    subject: `user:${name}:${subject}`,
    displayName: isName(displayName) ? displayName : null,
    groups: [...new Set(groups)].map((group) => `group:${name}:${group}`),
  };
}

function isName(value: unknown): value is string {
  return typeof value === "string" && NAME.test(value);
}

/** The claim at a path; undefined if there is none. */
export function at(claims: Claims, path: ClaimPath): unknown {
  return path.reduce<unknown>(
    (value, name) => (isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined),
    claims,
  );
}

/** Whether a claim has a value, or is a list that contains it. */
function hasValue(claim: unknown, value: unknown): boolean {
  const wanted = JSON.stringify(value);
  return (
    JSON.stringify(claim) === wanted || (Array.isArray(claim) && claim.some((one) => JSON.stringify(one) === wanted))
  );
}
