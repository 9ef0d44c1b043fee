import { after, test } from "node:test";
import { conformance } from "ostler-driver/conformance";
import factory from "../dist/index.js";
import { startMachine } from "./machine.js";

const machine = await startMachine("an-example-token");
after(() => machine.close());
const settings = { address: "127.0.0.1", port: machine.port, token: "an-example-token" };

const checks = conformance({
  factory,
  settings,
  live: true,
  refused: { ...settings, token: "another-token" },
  endpoint: ({ host, port }) => ({ ...settings, address: host, port }),
});

for (const { title, run, timeoutSeconds } of checks) test(title, { timeout: timeoutSeconds * 1000 }, run);
