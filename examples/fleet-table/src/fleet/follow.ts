/**
 * Follows the nodes that match a filter: all of them first, then every change. After a connection loss it goes on after
 * its last cursor, so nothing is missed, and nothing is read again.
 */
import { stringifyDocument } from "urql";
import { socket } from "../api/connection.ts";
import { FleetChangesDocument } from "../api/generated/graphql.ts";
import type {
  FleetChangesSubscription,
  FleetChangesSubscriptionVariables,
  NodeFilter,
  RowFragment,
} from "../api/generated/graphql.ts";

export interface FleetReader {
  /** All nodes follow, and then `whole`. */
  begin(): void;
  upsert(row: RowFragment): void;
  leave(id: string): void;
  /** Every node has been sent. */
  whole(): void;
  /** Everything that had happened before the connection was made has been sent. */
  live(): void;
  failed(message: string): void;
}

const QUERY = stringifyDocument(FleetChangesDocument);
const PAUSE_MS = 1_000;

/** Returns the function that ends it. */
export function followFleet(filter: NodeFilter | null, reader: FleetReader): () => void {
  /** Where to go on; null until all nodes have been sent: an incomplete snapshot cannot be continued. */
  let cursor: string | null = null;
  let hasEnded = false;
  let close = () => {};

  function nextRequest(): FleetChangesSubscriptionVariables {
    if (cursor === null) reader.begin();
    return { filter, after: cursor, snapshot: cursor === null };
  }

  function take(item: FleetChangesSubscription["nodeChanges"]): void {
    switch (item.__typename) {
      case "NodeUpserted":
        reader.upsert(item.node);
        break;
      case "NodeLeft":
        reader.leave(item.id);
        break;
      case "StreamBookmark":
        if (item.snapshotComplete) {
          cursor = item.cursor;
          reader.whole();
        }
        if (item.caughtUp) reader.live();
        break;
      case "StreamReset":
        // After SHUTTING_DOWN the socket closes, and graphql-ws connects again.
        if (item.code !== "SHUTTING_DOWN") cursor = null;
        return;
      default:
    }
    if (cursor !== null) ({ cursor } = item);
  }

  function subscribe(): void {
    if (hasEnded) return;
    close = socket.subscribe<FleetChangesSubscription>(
      {
        query: QUERY,
        // graphql-ws serializes the request again for each connection: with a getter it continues, and does not repeat.
        get variables() {
          return { ...nextRequest() };
        },
      },
      {
        next({ data, errors }) {
          if (data) take(data.nodeChanges);
          else reader.failed(errors?.map(({ message }) => message).join(" ") ?? "The answer has no data.");
        },
        error: (error) => reader.failed(messageOf(error)),
        // After a reset the service completes the stream.
        complete: () => setTimeout(subscribe, PAUSE_MS),
      },
    );
  }

  subscribe();
  return () => {
    hasEnded = true;
    close();
  };
}

function messageOf(error: unknown): string {
  if (Array.isArray(error)) return error.map(messageOf).join(" ");
  if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
  return "The service does not accept this page.";
}
