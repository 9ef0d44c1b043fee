/** Call-backs of machines: a step that waits is told something by whoever has the token it was given. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Engine } from "../engine/engine.ts";
import { unstorable } from "../graphql/base/storable.ts";
import type { StoredJson } from "../store/records.ts";
import { readBody, refuseBody, sendJson } from "./respond.ts";

const CALLBACK_BYTES_MAX = 64 * 1024;

export async function serveCallback(
  engine: Engine,
  request: IncomingMessage,
  response: ServerResponse,
  callbackToken: string,
): Promise<void> {
  const body = await readBody(request, CALLBACK_BYTES_MAX);
  if (body === null)
    return refuseBody(request, response, { error: `A call-back has at most ${CALLBACK_BYTES_MAX} bytes.` });
  let value: StoredJson;
  try {
    value = body === "" ? {} : (JSON.parse(body) as StoredJson);
  } catch {
    return sendJson(response, 400, { error: "A call-back's body is JSON, or empty." });
  }
  const flaw = unstorable(value);
  if (flaw !== null) return sendJson(response, 400, { error: flaw });
  const answer = await engine.receiveCallback(callbackToken, value);
  switch (answer) {
    case "TAKEN":
      return sendJson(response, 202, { taken: true });
    // Alike: once the step has gone on, a report that is repeated cannot be told from one that never was in time.
    case "LATE":
    case "DUPLICATE":
      return sendJson(response, 409, {
        error:
          "This call-back was made before, or comes too late; the step has gone on, or is about to. Nothing was changed.",
      });
    // Alike, so that nobody learns which runs there are.
    case "FORGED":
    case "UNKNOWN":
      return sendJson(response, 404, { error: "Nobody expects this call-back." });
  }
}
