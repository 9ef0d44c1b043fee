/** Filters of clusters, for the list and for the stream. */
import type { ClusterFilter } from "../../../store/nodes/cluster-filter.ts";
import { builder } from "../../base/builder.ts";
import { keyOf, uuidOrNone } from "../../base/ids.ts";
import { nameFilter, StringFilterInput } from "../selectors.ts";

export const ClusterFilterInput = builder.inputType("ClusterFilter", {
  description:
    "Filter for clusters. The given fields are combined with AND; an unknown name matches no cluster, and a field that is omitted or null matches all.",
  fields: (t) => ({
    ids: t.idList({ description: "By global ID or UUID; an empty list matches nothing." }),
    name: t.field({ type: StringFilterInput, description: "With a name that matches this filter." }),
  }),
});

export function clusterFilter(
  filter: typeof ClusterFilterInput.$inferInput | null | undefined,
): ClusterFilter | undefined {
  return filter
    ? {
        ids: filter.ids?.map((id) => uuidOrNone(keyOf("Cluster", id))),
        name: nameFilter(filter.name),
      }
    : undefined;
}
