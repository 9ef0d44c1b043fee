/** The fleet on a screen on the wall: for reading only, without buttons, menus and keys. */
import { attention, running, useStore } from "../data/streams.ts";
import { ConnectionStatus } from "../parts/connection-status.tsx";
import { useFleetView } from "../parts/fleet-view.ts";
import { FleetMap } from "../parts/fleet-map.tsx";
import { UnknownParameters } from "../parts/notices.tsx";
import { OperationLine } from "../parts/operation-line.tsx";
import { Text } from "../parts/text.tsx";
import { WALL, useParameters } from "../routes.ts";
import { byUrgency, groupKey, groupText } from "../words/attention.ts";
import { numberText } from "../words/numbers.ts";
import { familyOf, sentenceCase } from "../words/states.ts";

const PARAMETERS = {} as const;
const SHOWN = 5;
/** Heights in pixels: the numbers above the map, a line of the lists, the name of a section, the least of the cells. */
const TOP = 160;
const LINE = 48;
const SECTION = 64;
const HEIGHT_MIN = 200;

export function WallScreen() {
  const view = useFleetView();
  const { value } = useStore(attention);
  const operations = [...useStore(running).items.values()].toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  const lines = Math.min(SHOWN, value?.groups.length ?? 0) + Math.min(SHOWN, operations.length);
  const height = Math.max(HEIGHT_MIN, window.innerHeight - TOP - LINE * lines - SECTION * view.sections.length);
  return (
    <div className="screen wall">
      <div className="wall-top">
        <h1>Ostler</h1>
        <ConnectionStatus />
      </div>
      <UnknownParameters unknown={useParameters(PARAMETERS).unknown} path={WALL} />
      <section aria-label="Nodes by state" className="counts">
        {view.states.map(([state, count]) => (
          <span key={state} className="state" data-family={familyOf(state)}>
            {sentenceCase(state)} <b>{numberText(count)}</b>
          </span>
        ))}
      </section>
      {value && value.groups.length > 0 && (
        <section aria-labelledby="attention" className="attention">
          <h2 id="attention">
            Needs attention <b>{numberText(value.nodeCount)}</b>
          </h2>
          <ul className="groups">
            {byUrgency(value.groups)
              .slice(0, SHOWN)
              .map((group) => (
                <li key={groupKey(group)}>
                  <b>{numberText(group.nodeCount)}</b> × <Text>{groupText(group)}</Text>
                </li>
              ))}
          </ul>
        </section>
      )}
      {operations.length > 0 && (
        <section aria-label="Running operations" className="running">
          {operations.slice(0, SHOWN).map((operation) => (
            <OperationLine key={operation.id} operation={operation} isQuiet />
          ))}
        </section>
      )}
      <FleetMap view={view} only={null} onPoint={() => {}} onOpen={() => {}} height={height} />
    </div>
  );
}
