/** All nodes: the pages of the list, then every change since its first page. */
import type { ErrorLike } from "@apollo/client";
import { useQuery, useSubscription } from "@apollo/client/react";
import { useEffect, useState, useSyncExternalStore } from "react";
import { ChangesDocument, NodesDocument } from "../generated/graphql.ts";
import { connection } from "./client.ts";

export function useLiveNodes() {
  const { data: list, loading, error, fetchMore, refetch } = useQuery(NodesDocument);
  const [pageError, setPageError] = useState<ErrorLike | null>(null);
  const { nodes = [], asOf = "", pageInfo } = list?.nodes ?? {};
  /** Another object after each loss of the connection. */
  const status = useSyncExternalStore(connection.subscribe, connection.getSnapshot);
  /** The connection over which everything has arrived that had happened before. */
  const [caughtUpOn, setCaughtUpOn] = useState<object | null>(null);

  useEffect(() => {
    if (!loading && pageInfo?.hasNextPage) fetchMore({ variables: { after: pageInfo.endCursor } }).catch(setPageError);
  }, [loading, pageInfo, fetchMore]);

  function reload() {
    setCaughtUpOn(null);
    setPageError(null);
    refetch().catch(() => {}); // It is in `error`.
  }

  useSubscription(ChangesDocument, {
    variables: { after: asOf },
    skip: loading || pageInfo?.hasNextPage !== false,
    ignoreResults: true,
    onData({ client: { cache }, data: { data } }) {
      const change = data?.nodeChanges;
      // The fields of the node are in the cache by now. A new node joins the list.
      if (change?.__typename === "NodeUpserted")
        cache.updateQuery({ query: NodesDocument, overwrite: true }, (kept) =>
          kept?.nodes.nodes.every(({ id }) => id !== change.node.id)
            ? { ...kept, nodes: { ...kept.nodes, nodes: [...kept.nodes.nodes, change.node] } }
            : undefined,
        );
      else if (change?.__typename === "NodeLeft") cache.evict({ id: `Node:${change.id}` });
      else if (change?.__typename === "StreamBookmark" && change.caughtUp) setCaughtUpOn(connection.getSnapshot());
    },
    // After a StreamReset, for example because the cursor has expired.
    onComplete: reload,
  });
  return { nodes, error: error ?? pageError, reload, isLive: caughtUpOn === status, status };
}
