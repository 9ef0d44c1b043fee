/** Events of one BMC: to open streams (server-sent events), to subscribers by POST, and to its log. */
import { request as httpRequest } from "node:http";
import type { ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";

export interface BmcEvent {
  readonly messageId: string;
  readonly message: string;
  readonly severity: "OK" | "Warning" | "Critical";
  /** Path of the resource that changed. */
  readonly origin: string;
}

export interface Subscription {
  readonly id: string;
  readonly destination: string;
  readonly context: string;
}

export interface EventHub {
  emit(event: BmcEvent): void;
  /** False if there are too many streams. */
  stream(response: ServerResponse): boolean;
  /** Null if there are too many subscriptions. */
  subscribe(destination: string, context: string): Subscription | null;
  unsubscribe(id: string): boolean;
  subscriptions(): readonly Subscription[];
}

const STREAMS_MAX = 8;
const SUBSCRIPTIONS_MAX = 20;
const DELIVERY_TIMEOUT_MS = 5000;

export function createEventHub(rename: (body: Record<string, unknown>) => Record<string, unknown>): EventHub {
  const streams = new Set<ServerResponse>();
  let subscriptions: readonly Subscription[] = [];
  let made = 0;
  let subscribed = 0;
  return {
    emit(event) {
      if (streams.size === 0 && subscriptions.length === 0) return;
      made += 1;
      const body = (context: string) => JSON.stringify(rename(eventBody(event, made, context)));
      for (const response of streams) response.write(`id: ${made}\ndata: ${body("")}\n\n`);
      for (const { destination, context } of subscriptions) deliver(destination, body(context));
    },
    stream(response) {
      if (streams.size >= STREAMS_MAX) return false;
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
      response.write(": connected\n\n");
      streams.add(response);
      response.on("close", () => streams.delete(response));
      return true;
    },
    subscribe(destination, context) {
      if (subscriptions.length >= SUBSCRIPTIONS_MAX) return null;
      subscribed += 1;
      const subscription = { id: String(subscribed), destination, context };
      subscriptions = [...subscriptions, subscription];
      return subscription;
    },
    unsubscribe(id) {
      const before = subscriptions.length;
      subscriptions = subscriptions.filter((one) => one.id !== id);
      return subscriptions.length < before;
    },
    subscriptions: () => subscriptions,
  };
}

function eventBody({ messageId, message, severity, origin }: BmcEvent, number: number, context: string) {
  return {
    "@odata.type": "#Event.v1_7_0.Event",
    Id: String(number),
    Name: "Event",
    Context: context,
    Events: [
      {
        EventId: String(number),
        MemberId: "0",
        EventTimestamp: new Date().toISOString(),
        MessageId: messageId,
        Message: message,
        MessageSeverity: severity,
        OriginOfCondition: { "@odata.id": origin },
      },
    ],
  };
}

/** One attempt: as on most BMCs, an event that is not accepted is lost. Any certificate is accepted. */
function deliver(destination: string, body: string): void {
  const send = destination.startsWith("https:") ? httpsRequest : httpRequest;
  const request = send(destination, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    timeout: DELIVERY_TIMEOUT_MS,
    rejectUnauthorized: false,
  });
  request.on("response", (response) => response.resume());
  request.on("timeout", () => request.destroy());
  request.on("error", () => undefined);
  request.end(body);
}
