/** Every node as a cell, by cluster, beside a table of the same numbers. */
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import type { NodeRow } from "../data/streams.ts";
import { clusterPath } from "../routes.ts";
import { numberText } from "../words/numbers.ts";
import { FAMILIES, FAMILY_NAMES } from "../words/states.ts";
import type { Family } from "../words/states.ts";
import type { FleetView } from "./fleet-view.ts";
import { cellSize } from "./heat-map-layout.ts";
import { HeatMap } from "./heat-map.tsx";
import { Text } from "./text.tsx";

/** Left and right of the cells of a section, together. */
const PADDING = 8;
/** About half a screen. */
const HEIGHT = 460;

interface FleetMapProps {
  readonly view: FleetView;
  readonly only: Family | null;
  readonly onPoint: (node: NodeRow | null) => void;
  readonly onOpen: (node: NodeRow) => void;
  /** Its names of clusters lead to them. */
  readonly isLinked?: boolean;
  /** That all cells should have together, in pixels. */
  readonly height?: number;
}

export function FleetMap({ view, only, onPoint, onOpen, isLinked = false, height = HEIGHT }: FleetMapProps) {
  const [box, width] = useWidth();
  const { sections, nodes, families } = view;
  const cell = cellSize(
    sections.map(({ ids }) => ids.length),
    width,
    height,
  );
  return (
    <section aria-label="Nodes by cluster">
      <div ref={box} className="map">
        {width > 0 &&
          sections.map((section) => (
            <div key={section.cluster ?? ""} className="map-section">
              <h2>
                <ClusterName name={section.cluster} isLinked={isLinked} />{" "}
                <span className="quiet">{numberText(section.ids.length)}</span>
              </h2>
              <HeatMap
                section={section}
                nodes={nodes}
                width={width}
                cell={cell}
                only={only}
                onPoint={onPoint}
                onOpen={onOpen}
              />
            </div>
          ))}
      </div>
      <details>
        <summary>The same as a table</summary>
        <div className="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Cluster</th>
                {FAMILIES.map((family) => (
                  <th key={family} scope="col">
                    <span className="state" data-family={family}>
                      {FAMILY_NAMES[family]}
                    </span>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {sections.map(({ cluster }) => (
                <tr key={cluster ?? ""}>
                  <th scope="row">
                    <ClusterName name={cluster} isLinked={isLinked} />
                  </th>
                  {FAMILIES.map((family) => (
                    <td key={family}>{numberText(families.get(cluster)?.[family] ?? 0)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}

function ClusterName({ name, isLinked }: { readonly name: string | null; readonly isLinked: boolean }) {
  if (name === null) return "No cluster";
  const text = <Text>{name}</Text>;
  return isLinked ? <Link href={clusterPath(name)}>{text}</Link> : text;
}

function useWidth() {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0) - PADDING));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width] as const;
}
