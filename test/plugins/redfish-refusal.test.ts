/** How a refused change is sent again: the decision alone. Against simulated BMCs: redfish.test.ts. */
import { expect, test } from "vitest";
import { conditionsOf, isAboutCondition, remedyOf } from "../../plugins/redfish/refusal.ts";
import type { SentChange } from "../../plugins/redfish/refusal.ts";

const SYSTEM = "/redfish/v1/Systems/1";
const sent: SentChange = {
  path: SYSTEM,
  body: { Image: "x", Inserted: true },
  spare: { MediaType: "CD" },
  optional: ["Inserted"],
  mayMove: true,
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
  const answer = answerOf(status, { error: { code: `Base.1.8.${code}`, message } });
  expect(remedyOf(answer, { ...sent, ...change })).toEqual(remedy);
});

const about = (MessageId: string, more = {}) => ({ MessageId, ...more });

test.each<[string, number, unknown]>([
  ["plain text", 400, "missing mandatory field: MediaType"],
  ["a page", 400, "<html><p>MediaType is missing</p></html>"],
  ["JSON of its own", 400, { error: "mediaType missing" }],
  ["an argument", 422, { error: { "@Message.ExtendedInfo": [about("OEM.1.0.X", { MessageArgs: ["MediaType"] })] } }],
  ["a path", 400, { "@Message.ExtendedInfo": [about("Base.1.8.X", { RelatedProperties: ["#/MediaType"] })] }],
  ["an annotation", 400, { "MediaType@Message.ExtendedInfo": [about("Base.1.8.PropertyMissing")] }],
  [
    "the second message",
    400,
    { error: { "@Message.ExtendedInfo": [about("A.1.B"), about("A.1.C", { Message: "MediaType" })] } },
  ],
])("refused change: what is missing is named by %s [R-780]", (_what, status, body) => {
  expect(remedyOf(answerOf(status, body), sent)).toEqual({ kind: "BODY", body: { ...sent.body, MediaType: "CD" } });
});

test("refused change: a missing member of a member is added there [R-780]", () => {
  const change = { ...sent, body: { Boot: { Target: "Pxe" } }, spare: { Boot: { Mode: "UEFI" } } };
  const remedy = { kind: "BODY", body: { Boot: { Target: "Pxe", Mode: "UEFI" } } };
  expect(remedyOf(answerOf(400, "Mode is required"), change)).toEqual(remedy);
});

test.each<[number, unknown]>([
  [425, ""],
  [423, ""],
  [409, { error: { code: "Base.1.8.ResourceInUse" } }],
  [400, { error: { code: "iLO.2.14.UnableToModifyDuringSystemPOST" } }],
  [500, { error: { code: "SMC.1.0.SystemInPost" } }],
  [400, "Unable to run the method because the server is performing POST operations."],
  [400, "BIOS POST has not completed yet."],
  [409, "The host is currently busy."],
])("refused change: %s %j is sent again later [R-780]", (status, body) => {
  expect(remedyOf(answerOf(status, body), { ...sent, optional: [] })).toEqual({ kind: "WAIT" });
});

test.each<[number, unknown, boolean]>([
  [412, "", true],
  [428, "", true],
  [400, { error: { code: "Base.1.8.PreconditionFailed" } }, true],
  [400, "Header If-Match is not valid.", true],
  [400, "MediaType is missing.", false],
  [500, "The ETag could not be computed.", false],
])("refused change: %s %j is about the condition: %s [R-780]", (status, body, expected) => {
  expect(isAboutCondition(answerOf(status, body))).toBe(expected);
});

test("refused change: an ETag is tried in every form, then any state, then none [R-780]", () => {
  expect(conditionsOf(['W/"1"', "2"])).toEqual(['W/"1"', '"1"', "1", "2", '"2"', 'W/"2"', "*", undefined]);
  expect(conditionsOf([])).toEqual(["*", undefined]);
});

function answerOf(status: number, body: unknown) {
  return { status, header: () => undefined, body: typeof body === "string" ? body : JSON.stringify(body) };
}
