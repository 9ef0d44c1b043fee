/** A name lookup that never returns: the check whether a BMC is present still ends with its signal. */
import { expect, test, vi } from "vitest";
import { bmcAnswers } from "../../plugins/ipmi/presence.ts";

vi.mock("node:dns/promises", () => ({ lookup: () => new Promise<never>(() => {}) }));

test.each(["fires", "has fired"])(
  "IPMI presence check does not wait for a name lookup when the signal %s",
  async (how) => {
    const end = new AbortController();
    if (how === "has fired") end.abort();
    const answer = bmcAnswers({ address: "bmc.example", port: 623, milliseconds: 700, signal: end.signal });
    end.abort();
    expect(await answer).toBe(false);
  },
);
