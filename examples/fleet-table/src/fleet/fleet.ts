/**
 * The nodes that match a filter: first pages, which cost the service a fraction of a snapshot of the stream, then
 * every change.
 */
import type { ItemsView, ListPage } from "ostler-client";
import { useChanges } from "ostler-client/react";
import { client, connection, isTransient } from "../api/connection.ts";
import { FleetChangesDocument, FleetPageDocument } from "../api/generated/graphql.ts";
import type { FleetPageQueryVariables, NodeFilter, RowFragment } from "../api/generated/graphql.ts";

export type Row = RowFragment;

interface FleetVariables {
  readonly filter?: NodeFilter | null | undefined;
}

/** More than a screen, and quick. */
const FIRST_PAGE = 100;
/** Costs 4,600 with the fields of a row; a request may cost 5,000 (docs/limits.md). */
const PAGE = 850;
const PAUSE_MS = 1_000;

export function useFleet(filter: NodeFilter | null): ItemsView<Row> {
  return useChanges(connection, FleetChangesDocument, { filter }, { pages: fleetPages });
}

async function* fleetPages({ filter = null }: FleetVariables): AsyncGenerator<ListPage<Row>> {
  let variables: FleetPageQueryVariables = { filter, first: FIRST_PAGE };
  for (;;) {
    const { data, error } = await client.query(FleetPageDocument, variables).toPromise();
    if (data) {
      const { asOf, nodes, pageInfo } = data.nodes;
      yield { asOf, rows: nodes };
      if (!pageInfo.hasNextPage) return;
      variables = { filter, first: PAGE, after: pageInfo.endCursor };
    } else if (error?.networkError || isTransient(error?.graphQLErrors))
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    else throw new Error(error?.message);
  }
}
