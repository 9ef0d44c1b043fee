/** The requests of running agents, and the report of an installed system. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Agents, Bearer } from "../engine/agents/agents.ts";
import { sendJson } from "../http/graphql/respond.ts";
import type { Observer } from "../observer.ts";
import { parseReport } from "../runtime/exact-json.ts";
import { bearerOf, reportOf, resultOf, storableJson } from "./agent-messages.ts";
import { readJson, readText, refuse, refuseBearer, refuseUnknown } from "./guard.ts";
import { addressOf } from "../runtime/ip-addresses.ts";
import type { Guard } from "./guard.ts";

const POLL_BYTES_MAX = 64 * 1024;
const RESULT_BYTES_MAX = 1024 * 1024;
const HOME_BYTES_MAX = 64 * 1024;

interface AgentApi {
  poll(request: IncomingMessage, response: ServerResponse): Promise<void>;
  result(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** `token`: the last part of the path. */
  callHome(request: IncomingMessage, response: ServerResponse, token: string): Promise<void>;
}

interface AgentApiOptions {
  readonly agents: Pick<Agents, "poll" | "result" | "callHome">;
  readonly guard: Guard;
  readonly observer: Pick<Observer, "agentRefused">;
}

export function createAgentApi({ agents, guard, observer }: AgentApiOptions): AgentApi {
  /** The bearer; null if the request was refused. */
  function admitted(request: IncomingMessage, response: ServerResponse): Bearer | null {
    if (!guard.mayTry(request, response)) return null;
    const bearer = bearerOf(request.headers.authorization);
    if (bearer === null) refuseAgent(request, response, "UNKNOWN");
    return bearer;
  }

  function refuseAgent(request: IncomingMessage, response: ServerResponse, why: "UNKNOWN" | "STRANGER"): void {
    guard.countRejected(request);
    observer.agentRefused(why === "UNKNOWN" ? "unknown" : "second");
    if (why === "UNKNOWN") return refuseBearer(request, response);
    sendJson(response, 409, { error: "Another agent has this session. Power this machine off." });
  }

  return {
    async poll(request, response) {
      const bearer = admitted(request, response);
      const body = bearer && (await readJson(request, response, POLL_BYTES_MAX));
      if (!bearer || !body) return;
      const report = reportOf(body.value, addressOf(request.socket));
      if (typeof report === "string") return sendJson(response, 400, { error: report });
      const order = await guard.ask(request, response, () => agents.poll(bearer, report));
      if (order === null) return;
      if (typeof order.found === "string") return refuseAgent(request, response, order.found);
      sendJson(response, 200, order.found);
    },
    async result(request, response) {
      const bearer = admitted(request, response);
      const endUpload = bearer && guard.startUpload(request, response);
      if (!bearer || !endUpload) return;
      const body = await readJson(request, response, RESULT_BYTES_MAX).finally(endUpload);
      if (!body) return;
      const sent = resultOf(body.value);
      if (typeof sent === "string") return sendJson(response, 400, { error: sent });
      const answer = await guard.ask(request, response, () => agents.result(bearer, sent.instance, sent.result));
      switch (answer?.found) {
        case undefined:
          return;
        case "TAKEN":
          return sendJson(response, 202, { taken: true });
        case "RETRY":
          return refuse(request, response, 503, "The step cannot take the result yet");
        case "NOT_CURRENT":
          return sendJson(response, 409, { error: "Nothing waits for the result of this task." });
        case "UNKNOWN":
        case "STRANGER":
          return refuseAgent(request, response, answer.found);
      }
    },
    async callHome(request, response, token) {
      if (!guard.mayTry(request, response)) return;
      if (!/^[\w.-]{16,200}$/.test(token)) {
        guard.countRejected(request);
        return refuseUnknown(request, response);
      }
      const text = await readText(request, response, HOME_BYTES_MAX);
      if (text === undefined) return;
      const body = storableJson(reportOfSystem(text, request.headers["content-type"] ?? ""));
      if (body === undefined) return sendJson(response, 400, { error: "The report is nested too deeply." });
      const taken = await guard.ask(request, response, () => agents.callHome(token, body));
      if (taken === null) return;
      if (taken.found) return sendJson(response, 200, { taken: true });
      guard.countRejected(request);
      refuseUnknown(request, response);
    },
  };
}

/** JSON as it is, a form (as cloud-init sends it) as an object of texts, any other text as such. */
function reportOfSystem(text: string, type: string): unknown {
  if (text === "") return {};
  if (/^application\/x-www-form-urlencoded\b/i.test(type)) return Object.fromEntries(new URLSearchParams(text));
  try {
    return parseReport(text);
  } catch {
    return { text };
  }
}
