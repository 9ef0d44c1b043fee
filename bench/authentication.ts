/**
 * Subject `auth`: CPU of this process to find the caller of a request by each kind of credential, beside the configured
 * token. Tokens and sessions that are known are in memory, as in a service.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT, exportJWK, generateKeyPair } from "jose";
import { Authenticator } from "../src/access/authenticator.ts";
import { isRejection } from "../src/access/access.ts";
import type { Directory } from "../src/access/directory.ts";
import { JwtVerifier } from "../src/access/jwt.ts";
import { createSessionSecret, hashOfSession, idOfSession } from "../src/access/session.ts";
import type { IssuerConfig } from "../src/config/oidc.ts";
import { createApiToken } from "../src/runtime/api-token.ts";
import { median, printTable, shown } from "./figures.ts";

const TOKEN = "configured-token-of-a-service";
const ISSUER = "https://login.example/realms/corp";
const HOUR_MS = 3_600_000;
const ROUNDS = 5;

type Presented = Parameters<Authenticator["identify"]>[0];

export async function measureAuthentication({ requests }: { readonly requests: number }): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "bench-auth-"));
  try {
    const { config, sign } = await issuerIn(folder);
    const { directory, apiToken, session } = knownCredentials();
    using jwts = new JwtVerifier({ issuers: [config] });
    const authenticator = new Authenticator({ directory, token: TOKEN, jwts });
    const bearer = (text: string): Presented => ({ authorization: `Bearer ${text}`, address: "192.0.2.1" });
    const same = (presented: Presented) => () => Promise.resolve(Array.from({ length: requests }, () => presented));
    const fresh = (alg: string) => async () =>
      (await Promise.all(Array.from({ length: requests }, () => sign(alg)))).map(bearer);
    const kinds: Readonly<Record<string, () => Promise<Presented[]>>> = {
      "configured token": same(bearer(TOKEN)),
      "API token": same(bearer(apiToken)),
      session: same({ authorization: undefined, session, address: "192.0.2.1" }),
      "JWT, known": same(bearer(await sign("RS256"))),
      "JWT, new, RS256": fresh("RS256"),
      "JWT, new, ES256": fresh("ES256"),
    };
    const spent = new Map(Object.keys(kinds).map((kind) => [kind, [] as number[]]));
    // Kind by kind: making new JWTs leaves garbage.
    for (const [kind, make] of Object.entries(kinds))
      for (let round = 0; round <= ROUNDS; round += 1) {
        const all = await make();
        const before = process.cpuUsage();
        for (const presented of all)
          if (isRejection(await authenticator.identify(presented))) throw new Error(`${kind} was rejected.`);
        const { user, system } = process.cpuUsage(before);
        // The first round compiles the code.
        if (round > 0) spent.get(kind)?.push((user + system) / requests);
      }
    const base = median(spent.get("configured token") ?? []);
    console.log(`  medians of ${ROUNDS} rounds of ${requests} requests, in µs of CPU`);
    printTable(
      ["", "µs", "ratio"],
      [...spent].map(([kind, values]) => [kind, shown(median(values)), shown(median(values) / base)]),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A directory that knows one token and one session. */
function knownCredentials() {
  const { text: apiToken, ...token } = createApiToken();
  const secret = createSessionSecret();
  const ends = { version: 1, createdAt: new Date(), expiresAt: new Date(Date.now() + HOUR_MS), lastUsedAt: new Date() };
  const ofToken = { ...token, ...ends, accountId: "a", account: "ci", role: null, revokedAt: null };
  const ofSession = { id: idOfSession(secret), hash: hashOfSession(secret, ""), ...ends, subject: "user:corp:ada" };
  const known = {
    rules: { scopeOf: new Map(), grantsOf: new Map(), admins: new Set() },
    token: () => ofToken,
    session: () => ({ ...ofSession, name: null, groups: [], tokenId: null, endedAt: null }),
    subject: () => undefined,
    isEnabled: () => true,
    displayNameOf: () => null,
    noteUse: () => {},
    onChange: () => () => {},
  };
  return { directory: known as unknown as Directory, apiToken, session: secret };
}

async function issuerIn(folder: string) {
  const pairs = { RS256: await generateKeyPair("RS256"), ES256: await generateKeyPair("ES256") };
  const keys = await Promise.all(
    Object.entries(pairs).map(async ([alg, { publicKey }]) => ({ ...(await exportJWK(publicKey)), kid: alg, alg })),
  );
  const file = join(folder, "jwks.json");
  writeFileSync(file, JSON.stringify({ keys }));
  const config: IssuerConfig = {
    name: "corp",
    issuer: ISSUER,
    audiences: ["ostler"],
    keys: { file },
    claims: { subject: ["sub"], name: ["name"], groups: ["groups"] },
    requiredClaims: {},
    client: null,
  };
  let signed = 0;
  const sign = (alg: string) =>
    new SignJWT({ groups: ["ops", "night"], jti: String((signed += 1)) })
      .setProtectedHeader({ alg, kid: alg, typ: "at+jwt" })
      .setIssuer(ISSUER)
      .setAudience("ostler")
      .setSubject("ada")
      .setIssuedAt()
      .setExpirationTime("10m")
      .sign(pairs[alg as keyof typeof pairs].privateKey);
  return { config, sign };
}
