/** Secrets in the arguments of a task, which are masked in what the agent reports. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { newSecret } from "../../src/engine/agents/secrets.ts";
import { taskSecrets } from "../../src/engine/agents/task-secrets.ts";

test("the expected checksum of an image was masked in the failure that compares it", () => {
  const value = createHash("sha256").update("image").digest("hex");
  expect(taskSecrets({ image: { checksum: { algorithm: "SHA256", value } } })).toEqual([]);
});

test("the token of a call-home address is a secret of the task", () => {
  const token = newSecret();
  const vendorData = JSON.stringify({ phone_home: { url: `http://10.0.0.1:4010/home/${token}` } });
  expect(taskSecrets({ seed: { vendorData } })).toEqual([token]);
});
