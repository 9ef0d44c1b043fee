/** Every cluster with its state and the states of its nodes. */
import { Link } from "wouter";
import { clusters, useStore } from "../data/streams.ts";
import { NodeCounts } from "../parts/node-counts.tsx";
import { Problem, UnknownParameters } from "../parts/notices.tsx";
import { ClusterState } from "../parts/state-badge.tsx";
import { Text } from "../parts/text.tsx";
import { CLUSTERS, clusterPath, useParameters } from "../routes.ts";

const PARAMETERS = {} as const;

export function ClustersScreen() {
  const { items, isWhole, error } = useStore(clusters);
  const { unknown } = useParameters(PARAMETERS);
  const sorted = [...items.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return (
    <div className="screen" aria-busy={!isWhole}>
      <h1>Clusters</h1>
      <UnknownParameters unknown={unknown} path={CLUSTERS} />
      {error && <Problem error={error} />}
      {isWhole && sorted.length === 0 && (
        <p>
          No clusters yet. <code>npx ostler clusters create --help</code> shows how to create one.
        </p>
      )}
      <ul className="history">
        {sorted.map(({ id, name, state, nodeCounts }) => (
          <li key={id} className="history-line">
            <Link href={clusterPath(name)}>
              <Text>{name}</Text>
            </Link>
            <ClusterState state={state} />
            <NodeCounts counts={nodeCounts} />
          </li>
        ))}
      </ul>
    </div>
  );
}
