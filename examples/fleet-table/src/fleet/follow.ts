/**
 * Follows the nodes that match a filter. The stream of changes begins first; then all nodes are read page by page, while
 * changes already arrive. After a connection loss the stream goes on after its last cursor, so nothing is missed, and
 * nothing is read again.
 *
 * A node that the stream has sent is at least as new as the same node on a page that was read before that change, and if
 * the page is newer, another change follows. So pages add only nodes that the stream has not sent.
 */
import { stringifyDocument } from "urql";
import { client, socket } from "../api/connection.ts";
import { FleetChangesDocument, FleetPageDocument } from "../api/generated/graphql.ts";
import type {
  FleetChangesSubscription,
  FleetChangesSubscriptionVariables,
  FleetPageQueryVariables,
  NodeFilter,
  RowFragment,
} from "../api/generated/graphql.ts";

export interface FleetReader {
  /** All nodes follow, and then `whole`. */
  begin(): void;
  /** Nodes of a page. */
  add(rows: readonly RowFragment[]): void;
  upsert(row: RowFragment): void;
  leave(id: string): void;
  /** Every node has been read. */
  whole(): void;
  /** Everything that had happened before the connection was made has been sent. */
  live(): void;
  failed(message: string): void;
}

const QUERY = stringifyDocument(FleetChangesDocument);
/** Limited by the cost of a request: `Row` costs about 8 (docs/limits.md). */
const PAGE_NODES = 500;
const PAUSE_MS = 1_000;

/** Returns the function that ends it. */
export function followFleet(filter: NodeFilter | null, reader: FleetReader): () => void {
  const end = new AbortController();
  /** Where to go on; null until the stream has begun. */
  let cursor: string | null = null;
  /** Ends the reading of pages. */
  let load = new AbortController();
  let close = () => {};

  function take(item: FleetChangesSubscription["nodeTransitions"]): void {
    switch (item.__typename) {
      case "Transition":
        cursor = item.cursor;
        if (item.node) reader.upsert(item.node);
        else reader.leave(item.nodeUuid);
        break;
      case "StreamBookmark":
        if (cursor === null) void readPages();
        cursor = item.cursor;
        if (item.caughtUp) reader.live();
        break;
      case "StreamReset":
        // After SHUTTING_DOWN the socket closes, and graphql-ws connects again.
        if (item.code !== "SHUTTING_DOWN") cursor = null;
        break;
      default:
    }
  }

  async function readPages(): Promise<void> {
    load.abort();
    load = new AbortController();
    const { signal } = load;
    reader.begin();
    for (let after: string | null = null; ; ) {
      const variables: FleetPageQueryVariables = { filter, first: PAGE_NODES, after };
      const { data, error } = await client.query(FleetPageDocument, variables).toPromise();
      if (signal.aborted || end.signal.aborted) return;
      if (!data) {
        reader.failed(error?.message ?? "The answer has no data.");
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        continue;
      }
      const { nodes, pageInfo } = data.nodes;
      reader.add(nodes);
      after = pageInfo.endCursor;
      if (!pageInfo.hasNextPage) return reader.whole();
    }
  }

  function nextRequest(): FleetChangesSubscriptionVariables {
    return { filter, after: cursor };
  }

  function subscribe(): void {
    if (end.signal.aborted) return;
    close = socket.subscribe<FleetChangesSubscription>(
      {
        query: QUERY,
        // graphql-ws writes the request anew for each connection; a getter makes it continue instead of repeat.
        get variables() {
          return nextRequest();
        },
      },
      {
        next({ data, errors }) {
          if (data) take(data.nodeTransitions);
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
    end.abort();
    close();
  };
}

function messageOf(error: unknown): string {
  if (Array.isArray(error)) return error.map(messageOf).join(" ");
  if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
  return "The service does not accept this page.";
}
