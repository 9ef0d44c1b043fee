/** The file of OSTLER_OIDC: what it may have, and every flaw that a start names. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { configForLog, readConfig } from "../src/config/config.ts";
import type { IssuerConfig } from "../src/config/oidc.ts";

const folder = mkdtempSync(join(tmpdir(), "oidc-file-"));
afterAll(() => rmSync(folder, { recursive: true }));
const FILE = join(folder, "oidc.json");
const SECRET = "a-secret-of-the-client";

const ISSUER = { name: "corp", issuer: "https://login.example/realms/corp", audiences: ["ostler"] };
const CLIENT = { clientId: "web", clientSecret: SECRET };

function read(content: unknown, mode = 0o640): readonly IssuerConfig[] {
  writeFileSync(FILE, typeof content === "string" ? content : JSON.stringify(content));
  chmodSync(FILE, mode);
  return readConfig({ OSTLER_OIDC: FILE, OSTLER_HOST: "0.0.0.0" }, []).issuers;
}

const issuers = (...list: readonly object[]) => ({ issuers: list });

test("a file with defaults, and one with every member", () => {
  expect(read(issuers(ISSUER))).toEqual([
    {
      ...ISSUER,
      keys: null,
      claims: { subject: ["sub"], name: ["name"], groups: ["groups"] },
      requiredClaims: {},
      client: null,
    },
  ]);
  writeFileSync(join(folder, "jwks.json"), '{"keys":[]}');
  writeFileSync(join(folder, "secret"), `${SECRET}\n`, { mode: 0o600 });
  const more = {
    jwksFile: "jwks.json",
    claims: { subject: "oid", name: ["https://corp.example/name"], groups: "realm_access.roles" },
    requiredClaims: { tenant: "a" },
    client: { clientId: "web", clientSecretFile: "secret", scopes: ["openid"], baseUrl: "https://ostler.example/" },
  };
  expect(read(issuers({ ...ISSUER, ...more }), 0o644)).toEqual([
    {
      ...ISSUER,
      keys: { file: join(folder, "jwks.json") },
      claims: { subject: ["oid"], name: ["https://corp.example/name"], groups: ["realm_access", "roles"] },
      requiredClaims: { tenant: "a" },
      client: { clientId: "web", clientSecret: SECRET, scopes: ["openid"], baseUrl: "https://ostler.example" },
    },
  ]);
});

const FLAWS: Readonly<Record<string, [content: unknown, sentence: RegExp]>> = {
  "no JSON": ["{", /it is not valid JSON/],
  "no issuers": [{}, /`issuers` must be a list/],
  "an unknown member": [{ issuers: [ISSUER], more: 1 }, /`more` is unknown\. Known members: issuers\./],
  "an unknown member of an issuer": [issuers({ ...ISSUER, audience: "x" }), /`issuers\[0\]\.audience` is unknown/],
  "an unknown member of a client": [
    issuers({ ...ISSUER, client: { ...CLIENT, secret: "x" } }),
    /`issuers\[0\]\.client\.secret` is unknown/,
  ],
  "an unknown claim": [issuers({ ...ISSUER, claims: { group: "x" } }), /`issuers\[0\]\.claims\.group` is unknown/],
  "no name": [issuers({ issuer: ISSUER.issuer, audiences: ["x"] }), /`issuers\[0\]\.name` must be a text/],
  "a name with a colon": [issuers({ ...ISSUER, name: "a:b" }), /`issuers\[0\]\.name` is "a:b"/],
  "an issuer in clear": [issuers({ ...ISSUER, issuer: "http://login.example" }), /Use https; http is accepted only on/],
  "keys in clear": [issuers({ ...ISSUER, jwksUri: "http://login.example/jwks" }), /jwksUri.* Use https/],
  "an issuer without a scheme": [issuers({ ...ISSUER, issuer: "login.example" }), /Use a URL/],
  "two issuers of one name": [
    issuers(ISSUER, { ...ISSUER, issuer: "https://other.example" }),
    /two issuers have the name corp/,
  ],
  "one issuer twice": [issuers(ISSUER, { ...ISSUER, name: "other" }), /two issuers have the issuer/],
  "two clients": [
    issuers({ ...ISSUER, client: CLIENT }, { name: "b", issuer: "https://b.example", client: CLIENT }),
    /more than one issuer has a `client`/,
  ],
  "neither audiences nor a client": [
    issuers({ name: "a", issuer: "https://a.example" }),
    /neither `audiences` nor a `client`/,
  ],
  "audiences as one text": [issuers({ ...ISSUER, audiences: "ostler" }), /audiences` must be a list/],
  "the audience of ID tokens": [issuers({ ...ISSUER, audiences: ["web"], client: CLIENT }), /which ID tokens have/],
  "two sources of keys": [
    issuers({ ...ISSUER, jwksUri: "https://a.example/jwks", jwksFile: "none" }),
    /both `jwksUri` and `jwksFile`/,
  ],
  "keys that do not exist": [issuers({ ...ISSUER, jwksFile: "none" }), /jwksFile` cannot be read/],
  "keys in another format": [issuers({ ...ISSUER, jwksFile: "oidc.json" }), /is not a JSON object with a list `keys`/],
  "no clientId": [issuers({ ...ISSUER, client: {} }), /client\.clientId` must be a text/],
  "scopes without openid": [issuers({ ...ISSUER, client: { ...CLIENT, scopes: ["groups"] } }), /lacks openid/],
  "a base URL with a path": [
    issuers({ ...ISSUER, client: { ...CLIENT, baseUrl: "https://a.example/x" } }),
    /baseUrl` is https:\/\/a\.example\/x/,
  ],
};

describe("flaw of the file [R-995]", () => {
  test.each(Object.entries(FLAWS))("%s", (_what, [content, sentence]) => {
    expect(() => read(content)).toThrow(sentence);
    expect(() => read(content)).not.toThrow(SECRET);
  });

  test("a secret that every user of the host can read is refused, in the file and in one of its own", () => {
    expect(() => read(issuers({ ...ISSUER, client: CLIENT }), 0o644)).toThrow(/every user of this host can read it/);
    writeFileSync(join(folder, "open"), SECRET);
    chmodSync(join(folder, "open"), 0o644);
    const client = { clientId: "web", clientSecretFile: "open" };
    expect(() => read(issuers({ ...ISSUER, client }))).toThrow(/open.* can be read by every user of this host/);
  });

  test("all flaws are named, one a line", () => {
    expect(() => read(issuers({ ...ISSUER, name: "a b", more: 1 }))).toThrow(
      /`issuers\[0\]\.more`.*\n.*name` is "a b"/,
    );
  });

  test("a file that does not exist is refused", () => {
    expect(() => readConfig({ OSTLER_OIDC: join(folder, "none") }, [])).toThrow(/cannot be read/);
  });

  test("the log has no secret", () => {
    read(issuers({ ...ISSUER, client: CLIENT }));
    const config = readConfig({ OSTLER_OIDC: FILE }, []);
    expect(JSON.stringify(configForLog(config))).not.toContain(SECRET);
  });
});
