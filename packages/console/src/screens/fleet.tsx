/** The first screen: what is broken, what is happening, and every node. */
import { useState } from "react";
import { useLocation } from "wouter";
import { attention, fleet, pending, running, useStore } from "../data/streams.ts";
import type { NodeRow } from "../data/streams.ts";
import { AttentionList } from "../parts/attention-list.tsx";
import { useFleetView } from "../parts/fleet-view.ts";
import type { FleetView } from "../parts/fleet-view.ts";
import { FleetMap } from "../parts/fleet-map.tsx";
import { Problem, UnknownParameters } from "../parts/notices.tsx";
import { OperationLine } from "../parts/operation-line.tsx";
import { Text } from "../parts/text.tsx";
import { FLEET, nodePath, useParameters } from "../routes.ts";
import { numberText } from "../words/numbers.ts";
import { nodeSentence } from "../words/nodes.ts";
import { FAMILIES, familyOf, sentenceCase } from "../words/states.ts";
import type { Family } from "../words/states.ts";

const PARAMETERS = { show: FAMILIES } as const;
const OPERATIONS_SHOWN = 6;

export function FleetScreen() {
  const view = useFleetView();
  const { error } = useStore(fleet);
  const { value } = useStore(attention);
  const { value: changes } = useStore(pending);
  const { values, unknown, change } = useParameters(PARAMETERS);
  const only = (values.show ?? null) as Family | null;
  const [pointed, setPointed] = useState<NodeRow | null>(null);
  const [, navigate] = useLocation();
  return (
    <div className="screen">
      <h1>Fleet</h1>
      <UnknownParameters unknown={unknown} path={FLEET} />
      {error && <Problem error={error} />}
      {value && value.groupCount > 0 && <AttentionList title="Needs attention" answer={value} />}
      {value?.groupCount === 0 && <p className="well">Nothing needs attention.</p>}
      <Counts view={view} only={only} onOnly={(family) => change({ show: family })} />
      <Running />
      {view.isWhole && view.nodes.size === 0 ? (
        <EmptyFleet />
      ) : (
        <FleetMap
          view={view}
          only={only}
          onPoint={setPointed}
          onOpen={({ name }) => navigate(nodePath(name))}
          isLinked
        />
      )}
      {changes && changes.groupCount > 0 && (
        <AttentionList title="Not as their cluster wants it" answer={changes} shown={3} />
      )}
      <p className="pointed" aria-hidden="true">
        {pointed && (
          <>
            <b>{pointed.name}</b> <Text>{nodeSentence(view.nodes.get(pointed.id) ?? pointed)}</Text>
          </>
        )}
      </p>
    </div>
  );
}

interface CountsProps {
  readonly view: FleetView;
  readonly only: Family | null;
  readonly onOnly: (family: Family | null) => void;
}

/** Numbers of nodes by state. A number shows its family alone on the map. */
function Counts({ view, only, onOnly }: CountsProps) {
  return (
    <section aria-label="Nodes by state" className="counts">
      {view.states.map(([state, count]) => {
        const family = familyOf(state);
        return (
          <button
            key={state}
            type="button"
            className="state"
            data-family={family}
            aria-pressed={only === family}
            onClick={() => onOnly(only === family ? null : family)}
          >
            {sentenceCase(state)} <b>{numberText(count)}</b>
          </button>
        );
      })}
      <span className="quiet">{numberText(view.nodes.size)} in all</span>
    </section>
  );
}

function Running() {
  const { items } = useStore(running);
  // The newest first.
  const operations = [...items.values()].toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  if (operations.length === 0) return null;
  return (
    <section aria-labelledby="running" className="running">
      <h2 id="running">Now</h2>
      {operations.slice(0, OPERATIONS_SHOWN).map((operation) => (
        <OperationLine key={operation.id} operation={operation} />
      ))}
      {operations.length > OPERATIONS_SHOWN && <p>and {numberText(operations.length - OPERATIONS_SHOWN)} more</p>}
    </section>
  );
}

function EmptyFleet() {
  return (
    <section className="empty">
      <h2>No nodes yet</h2>
      <p>Register machines whose management controllers you know, or find them in a network:</p>
      <pre>{`npx ostler nodes register rack3-u12 --help
npx ostler discover --help`}</pre>
      <p>They appear here as soon as the service has them.</p>
    </section>
  );
}
