/** Callbacks of machines: a waiting step receives a report from the holder of its token. */
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
    return refuseBody(request, response, {
      error: `The callback has more than ${CALLBACK_BYTES_MAX} bytes. Send a shorter body.`,
    });
  let value: StoredJson;
  try {
    value = body === "" ? {} : (JSON.parse(body) as StoredJson);
  } catch {
    return sendJson(response, 400, { error: "The body of a callback must be valid JSON or empty." });
  }
  const flaw = unstorable(value);
  if (flaw !== null) return sendJson(response, 400, { error: flaw });
  const answer = await engine.receiveCallback(callbackToken, value);
  switch (answer) {
    case "TAKEN":
      return sendJson(response, 202, { taken: true });
    // The same response for both: once the step has continued, a repeated report looks like a late one.
    case "LATE":
    case "DUPLICATE":
      return sendJson(response, 409, {
        error: "This callback was already received, or is too late: the step has continued. Nothing was changed.",
      });
    // The same response for both: it must not reveal which runs exist.
    case "FORGED":
    case "UNKNOWN":
      return sendJson(response, 404, { error: "No step expects this callback. Check its URL." });
  }
}
