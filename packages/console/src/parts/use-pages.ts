/** Pages of a list, the newest first: the first one is read again with each version, earlier ones on demand. */
import { useEffect, useState } from "react";
import type { Answers } from "../../requests.ts";
import { useRequest } from "../data/queries.ts";
import { request } from "../data/request.ts";
import type { RequestName, Variables } from "../data/request.ts";

export interface Page<Item> {
  readonly items: readonly Item[];
  /** Variables of the next page; null after the last one. */
  readonly next: Variables | null;
}

export interface Pages<Item> extends Page<Item> {
  readonly isRead: boolean;
  readonly error: Error | null;
  /** Reads the next page. */
  readonly more: () => void;
}

interface PagesOptions<Name extends RequestName, Item> {
  readonly variables: Variables;
  readonly version: string | number;
  readonly pageOf: (answer: Answers[Name]) => Page<Item>;
}

export function usePages<Name extends RequestName, Item>(
  name: Name,
  { variables, version, pageOf }: PagesOptions<Name, Item>,
): Pages<Item> {
  const { data, error } = useRequest(name, variables, version);
  const [later, setLater] = useState<Page<Item> | null>(null);
  const [problem, setProblem] = useState<Error | null>(null);
  // Pages that were read before another first page would overlap it.
  useEffect(() => setLater(null), [data]);
  const first = data ? pageOf(data) : { items: [], next: null };
  const next = later ? later.next : first.next;

  async function read(): Promise<void> {
    try {
      const page = pageOf(await request(name, { ...variables, ...next }));
      setLater({ items: [...(later?.items ?? []), ...page.items], next: page.next });
      setProblem(null);
    } catch (cause) {
      setProblem(cause as Error);
    }
  }

  return {
    items: [...first.items, ...(later?.items ?? [])],
    next,
    isRead: data !== undefined,
    error: problem ?? error,
    more: () => void read(),
  };
}
