/** Answers that are wrong on purpose. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import type { Fault, OtherBody } from "./faults.ts";

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Answers by the first fault that replaces the whole answer. False if there is none, and the request goes on. */
export function answeredByFault({ request, response }: Exchange, faults: readonly Fault[]): boolean {
  for (const fault of faults)
    switch (fault.kind) {
      case "silent":
        return true;
      case "reset":
        resetConnection(request);
        return true;
      case "unavailable":
        response.writeHead(503, { "Retry-After": String(fault.retryAfterSeconds), "Content-Length": 0 }).end();
        return true;
      case "too-many": {
        const date = new Date(Date.now() + fault.retryAfterSeconds * 1000).toUTCString();
        response.writeHead(429, { "Retry-After": date, "Content-Length": 0 }).end();
        return true;
      }
      case "session-forbidden":
        response.writeHead(403, { "Content-Type": "application/json" }).end(NO_SESSION);
        return true;
      case "compressed":
        if (String(request.headers["accept-encoding"]).includes("gzip")) break;
        response.writeHead(406, { "Content-Length": 0 }).end();
        return true;
      case "answer":
        response.writeHead(fault.status, { "Content-Type": fault.body === "page" ? "text/html" : "application/json" });
        response.end(BODIES[fault.body]);
        return true;
      case "login-page":
        response.writeHead(302, { Location: LOGIN_PAGE, "Content-Length": 0 }).end();
        return true;
      case "redirect":
        response.writeHead(307, { Location: new URL(request.url ?? "/", fault.to).href, "Content-Length": 0 }).end();
        return true;
      case "huge":
        sendHuge(response, fault.bytes);
        return true;
      case "slow":
      case "deaf":
      case "half":
      case "cut":
      case "lost-session":
      case "lost-answer":
      case "malformed":
      case "control-characters":
      case "certificate":
      case "stuck-task":
        break;
    }
  return false;
}

export const LOGIN_PAGE = "/login.html";

export const BODIES: Readonly<Record<OtherBody, string>> = {
  page: "<html><title>Log in</title></html>",
  none: "",
  object: '{"login":"required"}',
  list: '[{"login":"required"}]',
  error: '{"error":{"code":"Base.1.8.GeneralError","message":"A general error has occurred."}}',
  "empty-list": '{"@odata.id":"/redfish/v1/x","Members":[],"Members@odata.count":0}',
};

const NO_SESSION = '{"error":{"code":"Base.1.8.NoValidSession","message":"There is no valid session."}}';

/** Sends a body as the faults want it: whole, cut but complete for HTTP, or half and then nothing. */
export function sendBody(response: ServerResponse, body: string, faults: readonly Fault[]): void {
  const has = (kind: Fault["kind"]) => faults.some((one) => one.kind === kind);
  const spelt = has("control-characters") ? body.replaceAll(/"(Manufacturer|Name)":"/g, "$&\r\u0001") : body;
  const text = has("malformed") ? spelt.slice(0, Math.ceil((spelt.length * 2) / 3)) : spelt;
  if (has("compressed")) {
    response.setHeader("Content-Encoding", "gzip");
    return void response.end(gzipSync(text));
  }
  response.setHeader("Content-Length", Buffer.byteLength(text));
  const half = text.slice(0, Math.ceil(text.length / 2));
  if (has("half")) response.write(half);
  else if (has("cut")) response.write(half, () => response.destroy());
  else response.end(text);
}

export function resetConnection({ socket }: IncomingMessage): void {
  // A TLS connection has no reset of its own; destroying it closes the connection without the end of TLS.
  if ("resetAndDestroy" in socket && !("encrypted" in socket)) socket.resetAndDestroy();
  else socket.destroy();
}

const CHUNK = "x".repeat(2 ** 16);

/** In pieces, so that a hundred large answers do not fill the memory of the simulator. */
function sendHuge(response: ServerResponse, bytes: number): void {
  const [head, tail] = ['{"Description":"', '"}'];
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": bytes });
  let left = bytes - head.length - tail.length;
  response.write(head);
  const more = () => {
    while (left > 0) {
      const piece = left >= CHUNK.length ? CHUNK : CHUNK.slice(0, left);
      left -= piece.length;
      if (!response.write(piece)) return void response.once("drain", more);
    }
    response.end(tail);
  };
  more();
}
