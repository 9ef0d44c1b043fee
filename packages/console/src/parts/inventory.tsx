/** The result of the last inspection as a tree. It is read when it is opened. */
import { useState } from "react";
import { useRequest } from "../data/queries.ts";
import { numberText } from "../words/numbers.ts";
import { Problem } from "./notices.tsx";
import { Text } from "./text.tsx";
import { Time } from "./time.tsx";

const ENTRIES_SHOWN = 200;
const DEPTH_OPEN = 1;

export function Inventory({ name, version }: { readonly name: string; readonly version: number }) {
  const [isOpen, setOpen] = useState(false);
  const { data, error } = useRequest("inventory", { name }, isOpen ? version : null);
  const inventory = data?.node?.inventory;
  return (
    <section aria-labelledby="inventory">
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <h2 id="inventory">Inventory</h2>
        </summary>
        {error && <Problem error={error} />}
        {data && !inventory && <p>The machine has not been inspected yet.</p>}
        {inventory && (
          <>
            <p className="quiet">
              Taken at <Time at={inventory.takenAt} /> by {inventory.driver}
            </p>
            <Tree value={inventory.data} depth={0} />
          </>
        )}
      </details>
    </section>
  );
}

function Tree({ value, depth }: { readonly value: unknown; readonly depth: number }) {
  if (typeof value !== "object" || value === null) return <Text>{String(value)}</Text>;
  const entries = Object.entries(value);
  return (
    <ul className="tree">
      {entries.slice(0, ENTRIES_SHOWN).map(([key, inner]) => (
        <li key={key}>
          {typeof inner === "object" && inner !== null ? (
            <details open={depth < DEPTH_OPEN}>
              <summary>
                <Text>{key}</Text> <span className="quiet">{numberText(Object.keys(inner).length)}</span>
              </summary>
              <Tree value={inner} depth={depth + 1} />
            </details>
          ) : (
            <>
              <Text>{key}</Text>: <b>{<Text>{String(inner)}</Text>}</b>
            </>
          )}
        </li>
      ))}
      {entries.length > ENTRIES_SHOWN && <li>and {numberText(entries.length - ENTRIES_SHOWN)} more</li>}
    </ul>
  );
}
