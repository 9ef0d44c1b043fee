/** Errors of listening on an address and a port. */
import { expect, test } from "vitest";
import { checkPort } from "../../src/http/port/listen.ts";

test("an address that no network interface has is named with its variable", async () => {
  // 192.0.2.0/24 is reserved for documentation.
  const setting = { variable: "OSTLER_PROVISION", flag: "provision-port" };
  await expect(checkPort(4010, "192.0.2.1", setting)).rejects.toThrow(
    "OSTLER_PROVISION_HOST is 192.0.2.1, but no network interface of this machine has that address.",
  );
});
