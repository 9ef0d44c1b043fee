/**
 * Follows the objects of a stream of changes, and shows them at most once per frame, whatever the number of changes. A
 * hidden page shows nothing. `createChangeMap` keeps the objects, and knows where a further connection begins, so
 * nothing is missed and nothing is read again.
 */
import { createChangeMap } from "ostler-client";
import type { ChangeItem, ChangeMap } from "ostler-client";
import { useEffect, useState } from "react";
import type { Dispatch, SetStateAction } from "react";
import { stringifyDocument } from "urql";
import type { TypedDocumentNode } from "urql";
import { connection, isTransient, socket } from "./connection.ts";

export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly asOf: string;
}

type Begin = ReturnType<ChangeMap<{ readonly id: string }>["begin"]>;

/** A stream of changes, whose field has the alias `changes`. */
export interface Stream<Row, Variables> {
  readonly document: TypedDocumentNode<{ readonly changes: ChangeItem<Row> }, Variables & Begin>;
  /** All objects, in place of a snapshot of the stream. Without it, the stream begins with a snapshot. */
  readonly pages?: (variables: Variables) => AsyncIterable<Page<Row>>;
}

/** The objects at one moment. It never changes; after a change there is another one. */
export interface View<Row> {
  readonly objects: ReadonlyMap<string, Row>;
  /** The objects are all that match. Until then they are the first ones, or those of the variables before. */
  readonly isWhole: boolean;
  /** The objects are what the service has now, as far as this page knows. */
  readonly isLive: boolean;
  /** Why the service refuses the stream; null while it does not. */
  readonly error: string | null;
}

const PAUSE_MS = 1_000;

/** Follows while the component is mounted. `stream` must be the same object in every render. */
export function useChanges<Row extends { readonly id: string }, Variables extends object>(
  stream: Stream<Row, Variables>,
  variables: Variables,
): View<Row> {
  const [view, setView] = useState<View<Row>>({ objects: new Map(), isWhole: false, isLive: false, error: null });
  const content = JSON.stringify(variables);
  useEffect(() => {
    setView((before) => ({ ...before, isWhole: false, isLive: false, error: null }));
    return follow(stream, JSON.parse(content) as Variables, setView);
  }, [stream, content]);
  return view;
}

/** Returns the function that ends it. */
function follow<Row extends { readonly id: string }, Variables extends object>(
  { document, pages }: Stream<Row, Variables>,
  variables: Variables,
  show: Dispatch<SetStateAction<View<Row>>>,
): () => void {
  const map = createChangeMap<Row>();
  const query = stringifyDocument(document);
  let isReading = pages !== undefined;
  let error: string | null = null;
  let frame = 0;
  let hasEnded = false;
  let close = () => {};

  function changed(problem: string | null = null): void {
    error = problem;
    if (!hasEnded) frame ||= requestAnimationFrame(publish);
  }

  function publish(): void {
    frame = 0;
    const { cursor, isLive } = map;
    show(({ objects }) => ({
      objects: cursor === null ? objects : map.objects,
      isWhole: cursor !== null && !isReading,
      isLive,
      error,
    }));
  }

  function begin() {
    const next = map.begin();
    changed();
    return next;
  }

  async function readPages(list: AsyncIterable<Page<Row>>): Promise<void> {
    const read: Row[] = [];
    let asOf: string | undefined;
    for await (const page of list) {
      if (hasEnded) return;
      read.push(...page.rows);
      // What has changed while the pages were read is repeated by the stream.
      asOf ??= page.asOf;
      map.takeList(read, asOf);
      changed();
    }
    isReading = false;
    subscribe();
  }

  function subscribe(): void {
    if (hasEnded) return;
    close = socket.subscribe<{ readonly changes: ChangeItem<Row> }>(
      {
        query,
        // graphql-ws serializes the request again for each connection: with a getter it continues, and does not repeat.
        get variables() {
          return { ...variables, ...begin() };
        },
      },
      {
        next({ data, errors }) {
          if (data) map.take(data.changes);
          changed(data ? null : messageOf(errors));
        },
        error(refusal) {
          changed(messageOf(refusal));
          if (isTransient(refusal)) setTimeout(subscribe, PAUSE_MS);
        },
        // After a reset the service completes the stream.
        complete: () => setTimeout(subscribe, PAUSE_MS),
      },
    );
  }

  const unsubscribe = connection.subscribe(() => {
    if (map.isLive && connection.getSnapshot().state !== "connected") begin();
  });
  if (pages) readPages(pages(variables)).catch((refusal: unknown) => changed(messageOf(refusal)));
  else subscribe();
  return () => {
    hasEnded = true;
    cancelAnimationFrame(frame);
    unsubscribe();
    close();
  };
}

function messageOf(error: unknown): string {
  if (Array.isArray(error)) return error.map(messageOf).join(" ");
  if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
  return "The service does not accept this page.";
}
