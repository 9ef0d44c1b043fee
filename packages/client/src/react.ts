"use client";
/** `ostler-client/react`: streams as hooks. */
import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import type { Connection } from "./connection.ts";
import { nodesDocument } from "./documents.ts";
import type { NodesVariables, OwnFields, TypedDocument } from "./documents.ts";
import { followChanges } from "./follow-changes.ts";
import type { FollowOptions, ItemsView, VariablesOf, ViewOf } from "./follow-changes.ts";

/**
 * Follows a subscription while the component is mounted. Another document, and variables with other content, start
 * another stream; until that has something to show, the view has what was shown before. Of other options, the first
 * ones of a stream count.
 */
export function useChanges<Result, Variables>(
  connection: Connection,
  document: TypedDocument<Result, Variables>,
  variables: VariablesOf<Variables>,
  options: Omit<FollowOptions<Result, Variables>, "placeholder"> = {},
): ViewOf<Result> {
  const shown = useRef<{ readonly document: unknown; readonly view: ViewOf<Result> }>(null);
  const content = JSON.stringify(variables);
  const followed = useMemo(() => {
    const placeholder = shown.current?.document === document ? shown.current.view : undefined;
    return followChanges(connection, document, variables, { ...options, placeholder });
  }, [connection, document, content]);
  const view = useSyncExternalStore(followed.subscribe, followed.getSnapshot, followed.getSnapshot);
  useEffect(() => {
    shown.current = { document, view };
  });
  return view;
}

/** Follows nodes with the fields of a fragment. */
export function useNodes<Row>(
  connection: Connection,
  fragment: TypedDocument<Row, never>,
  variables: NodesVariables = {},
): ItemsView<Row & OwnFields> {
  const document = useMemo(() => nodesDocument(fragment), [fragment]);
  return useChanges(connection, document, variables) as ItemsView<Row & OwnFields>;
}
