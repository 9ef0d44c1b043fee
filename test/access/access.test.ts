/** The configured token, and what callers may do by their roles. */
import { describe, expect, test } from "vitest";
import { CONFIGURED, actorOf, isRejection } from "../../src/access/access.ts";
import { accessOf } from "../../src/lifecycle/scopes.ts";
import type { AccessRules, Grant, Scope } from "../../src/lifecycle/scopes.ts";
import { authenticatorWith } from "../support/callers.ts";

const TOKEN = "correct-horse-battery";

test.each([
  ["the token", `Bearer ${TOKEN}`, true],
  ["another token of the same length", `Bearer ${TOKEN.replace("c", "k")}`, false],
  ["a prefix of the token", `Bearer ${TOKEN.slice(0, -1)}`, false],
  ["no header", undefined, false],
  ["the token without Bearer", TOKEN, false],
])("caller with %s is identified only by the exact token", async (_what, authorization, isKnown) => {
  const found = await authenticatorWith(TOKEN).identify({ authorization, address: "192.0.2.1" });
  expect(!isRejection(found)).toBe(isKnown);
});

test("a credential of any kind has ended when it has expired [R-971]", () => {
  const authenticator = authenticatorWith(TOKEN);
  const at = (expiresAt: Date) => {
    const identity = { ...CONFIGURED, expiresAt };
    return authenticator.present(
      actorOf(identity, { scopeOf: new Map(), grantsOf: new Map(), admins: new Set() }, new Date()),
    );
  };
  expect(at(new Date(Date.now() + 60_000))).toMatchObject({ scope: "ADMIN" });
  expect(at(new Date("2026-01-02T03:04:05Z"))).toEqual({
    rejected: "ENDED",
    message: "The token expired at 2026-01-02T03:04:05.000Z.",
  });
});

describe("access of a caller", () => {
  const NOW = new Date("2026-06-01T12:00:00Z");
  const LATER = new Date("2026-06-01T13:00:00Z");
  const EARLIER = new Date("2026-06-01T11:00:00Z");
  const scopeOf = new Map<string, Scope>([
    ["viewer", "READ"],
    ["operator", "OPERATE"],
    ["admin", "ADMIN"],
  ]);

  function rulesOf(grants: readonly Grant[], admins: readonly string[] = []): AccessRules {
    return { scopeOf, grantsOf: Map.groupBy(grants, ({ principal }) => principal), admins: new Set(admins) };
  }

  const grant = (role: string, expiresAt: Date | null = null): Grant => ({ principal: "account:ci", role, expiresAt });
  const asked = { principals: ["account:ci"], ceiling: null, expiresAt: null };

  test("grants add up, and an expired one does not count", () => {
    const rules = rulesOf([grant("viewer"), grant("operator", LATER), grant("admin", EARLIER)]);
    expect(accessOf(asked, rules, NOW)).toEqual({
      scope: "OPERATE",
      roles: ["operator", "viewer"],
      expiresAt: LATER,
    });
  });

  test.each([
    ["above the grants", "admin", "OPERATE"],
    ["below the grants", "viewer", "READ"],
    ["of a role that does not exist", "gone", null],
  ])("a ceiling %s leaves the lower of both", (_what, ceiling, scope) => {
    expect(accessOf({ ...asked, ceiling }, rulesOf([grant("operator")]), NOW).scope).toBe(scope);
  });

  test("a principal without a grant has no scope, whatever its ceiling", () => {
    expect(accessOf({ ...asked, ceiling: "admin" }, rulesOf([]), NOW)).toEqual({
      scope: null,
      roles: [],
      expiresAt: null,
    });
  });

  test("a principal of the configuration is always an administrator", () => {
    expect(accessOf(asked, rulesOf([], ["account:ci"]), NOW)).toMatchObject({ scope: "ADMIN", roles: ["admin"] });
  });
});
