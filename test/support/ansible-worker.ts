/**
 * A process that runs the step `configure` of the driver `ansible`, to be killed: `node ansible-worker.ts NODE PORT`.
 */
import factory from "../../plugins/ansible/index.ts";
import { ansibleSettings } from "../../plugins/ansible/settings.ts";
import { PRIVATE_KEY, stepOf } from "./ansible-lab.ts";
import { stepCallOf } from "./step-call.ts";

const [, , id = "", port = ""] = process.argv;
const call = {
  node: { id, name: "killed", powerState: "UNKNOWN" as const, labels: {} },
  settings: ansibleSettings.parse({ address: "127.0.0.1", port: Number(port), privateKey: PRIVATE_KEY }),
  signal: new AbortController().signal,
  deadline: new Date(Date.now() + 60_000),
  log: () => {},
  timed: <T>(_name: string, work: () => Promise<T>) => work(),
};
await stepOf(await factory({ log: () => {} }), "configure").run(stepCallOf(call, "killed"));
