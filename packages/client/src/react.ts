"use client";
/** `ostler-client/react`: the watched nodes as a hook. */
import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import type { NodeFields } from "./items.ts";
import { createNodeStore } from "./node-store.ts";
import type { NodesView, NodeStoreOptions } from "./node-store.ts";

export type { NodeStoreOptions, NodesView } from "./node-store.ts";

/**
 * Watches nodes while the component is mounted. A change of the options' content starts another watch; new objects and
 * functions with the same content do not.
 */
export function useNodes<Fields = NodeFields>(options: NodeStoreOptions): NodesView<Fields> {
  const latest = useRef(options);
  useEffect(() => {
    latest.current = options;
  });
  // JSON has no functions: the watch calls those of the latest render.
  const content = JSON.stringify([options, typeof options.token]);
  const store = useMemo(
    () =>
      createNodeStore<Fields>({
        ...options,
        ...(typeof options.token === "function" && { token: () => tokenOf(latest.current) }),
        onBreak: (broken) => latest.current.onBreak?.(broken),
      }),
    [content],
  );
  return useSyncExternalStore(store.subscribe, store.getSnapshot, store.getSnapshot);
}

function tokenOf({ token = "" }: NodeStoreOptions): string | Promise<string> {
  return typeof token === "string" ? token : token();
}
