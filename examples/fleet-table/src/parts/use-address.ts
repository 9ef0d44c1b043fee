/** The filters and the open operation, kept in the page's address: what a page shows can be sent as a link. */
import { useCallback, useState } from "react";
import { filtersOf, searchOf } from "../fleet/filters.ts";
import type { Filters } from "../fleet/filters.ts";

export interface Address {
  readonly filters: Filters;
  /** Id of the operation that is shown beside the table. */
  readonly operation: string | null;
}

export function useAddress(): readonly [Address, (change: Partial<Address>) => void] {
  const [address, setAddress] = useState<Address>(() => ({
    filters: filtersOf(location.search),
    operation: location.hash === "" ? null : location.hash.slice(1),
  }));
  const change = useCallback((part: Partial<Address>) => {
    setAddress((before) => {
      const next = { ...before, ...part };
      history.replaceState(
        null,
        "",
        `${location.pathname}${searchOf(next.filters)}${next.operation ? `#${next.operation}` : ""}`,
      );
      return next;
    });
  }, []);
  return [address, change];
}
