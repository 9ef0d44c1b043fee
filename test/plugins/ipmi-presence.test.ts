/** Names that nobody resolves: the question whether a BMC is there ends with its signal all the same. */
import { expect, test, vi } from "vitest";
import { bmcAnswers } from "../../plugins/ipmi/presence.ts";

vi.mock("node:dns/promises", () => ({ lookup: () => new Promise<never>(() => {}) }));

test.each(["fires", "has fired"])("a name is not waited for when the signal %s", async (how) => {
  const end = new AbortController();
  if (how === "has fired") end.abort();
  const answer = bmcAnswers({ address: "bmc.example", port: 623, milliseconds: 700, signal: end.signal });
  end.abort();
  expect(await answer).toBe(false);
});
