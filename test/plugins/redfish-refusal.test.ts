/** How a refused change is sent again: the decision alone. Against simulated BMCs: redfish.test.ts. */
import { expect, test } from "vitest";
import { remedyOf } from "../../plugins/redfish/refusal.ts";
import type { SentChange } from "../../plugins/redfish/refusal.ts";

const SYSTEM = "/redfish/v1/Systems/1";
const sent: SentChange = {
  path: SYSTEM,
  body: { Image: "x", Inserted: true },
  spare: { MediaType: "CD" },
  optional: ["Inserted"],
  mayMove: true,
  mayWait: true,
};

test.each<[string, number, string, Partial<SentChange>, unknown, string?]>([
  ...[403, 405].map((status): [string, number, string, Partial<SentChange>, unknown, string] => [
    `leaves out what cannot be written, as ${status} says`,
    status,
    "Inserted is read-only.",
    {},
    { kind: "BODY", body: { Image: "x" } },
    "PropertyNotWritable",
  ]),
  [
    "adds what is missing, also in a POST request",
    400,
    "MediaType is missing in POST request.",
    {},
    { kind: "BODY", body: { ...sent.body, MediaType: "CD" } },
  ],
  ["leaves out what is not taken", 400, "Inserted is not supported.", {}, { kind: "BODY", body: { Image: "x" } }],
  ["leaves out nothing for a word that only looks like a member", 409, "A medium is already inserted.", {}, undefined],
  ["leaves out nothing that a conflict names", 409, "Inserted is in use.", {}, undefined],
  ["waits for the self-test", 409, "The server is in POST.", {}, { kind: "WAIT" }],
  [
    "does not wait with a change that may not be made later",
    409,
    "The server is in POST.",
    { mayWait: false },
    undefined,
  ],
  ["moves to a resource below", 409, `It must be set at ${SYSTEM}/SD.`, {}, { kind: "PATH", path: `${SYSTEM}/SD` }],
  [
    "moves to the pending settings instead of another resource",
    409,
    "Use /redfish/v1/Chassis/2 instead.",
    {},
    { kind: "PATH" },
  ],
  ["does not move an action", 405, "Use /redfish/v1/Chassis/2 instead.", { mayMove: false }, undefined],
  ["sends an unexplained refusal without what is optional", 400, "Bad.", {}, { kind: "BODY", body: { Image: "x" } }],
  ["reports what no message explains", 409, "Bad.", {}, undefined],
])("refused change: %s [R-780]", (_what, status, message, change, remedy, code = "GeneralError") => {
  const body = JSON.stringify({ error: { code: `Base.1.8.${code}`, message } });
  expect(remedyOf({ status, header: () => undefined, body }, { ...sent, ...change })).toEqual(remedy);
});
