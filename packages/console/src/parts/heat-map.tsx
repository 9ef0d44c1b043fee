/**
 * A section of the heat map: one canvas, on which only cells that have changed are drawn. A canvas is not accessible;
 * the table of the same numbers stands beside it, and a node is found by its name.
 */
import { useEffect, useRef, useState } from "react";
import type { PointerEvent } from "react";
import type { NodeRow } from "../data/streams.ts";
import { FAMILIES, familyOf, nodeFamilyOf } from "../words/states.ts";
import type { Family } from "../words/states.ts";
import { cellAt, gridOf } from "./heat-map-layout.ts";
import type { Grid, MapSection } from "./heat-map-layout.ts";
import { useColors } from "./use-colors.ts";
import type { Colors } from "./use-colors.ts";

interface HeatMapProps {
  readonly section: MapSection;
  readonly nodes: ReadonlyMap<string, NodeRow>;
  /** Width and size of a cell, in pixels. */
  readonly width: number;
  readonly cell: number;
  /** Only this family is shown in its color. */
  readonly only: Family | null;
  readonly onPoint: (node: NodeRow | null) => void;
  readonly onOpen: (node: NodeRow) => void;
}

/** The content of the canvas: a digit for each cell, to find those that have changed. */
interface Drawn {
  readonly key: string;
  readonly cells: Int8Array;
}

/** Around the cells, for the corners of triangles. */
const EDGE = 4;
const FAILED = FAMILIES.indexOf("failed");
const DIMMED = FAMILIES.length;

export function HeatMap({ section, nodes, width, cell, only, onPoint, onOpen }: HeatMapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawn = useRef<Drawn>(null);
  const colors = useColors();
  const [isPointed, setPointed] = useState(false);
  const { ids } = section;
  const grid = gridOf(ids.length, width, cell);
  const height = grid.rows * cell;

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const cells = Int8Array.from(ids, (id) => {
      const node = nodes.get(id);
      const family = node ? nodeFamilyOf(node) : "rest";
      const isShown = only === null || only === family || (node !== undefined && only === familyOf(node.state));
      return isShown ? FAMILIES.indexOf(family) : DIMMED;
    });
    const ratio = window.devicePixelRatio;
    const key = JSON.stringify([width, height, cell, ratio, ids.length, colors]);
    const before = drawn.current?.key === key ? drawn.current.cells : null;
    if (!before) {
      context.canvas.width = Math.round((width + 2 * EDGE) * ratio);
      context.canvas.height = Math.round((height + 2 * EDGE) * ratio);
      context.setTransform(ratio, 0, 0, ratio, EDGE * ratio, EDGE * ratio);
    }
    draw(context, { grid, cells, before, colors });
    drawn.current = { key, cells };
  });

  const nodeAt = (event: PointerEvent | React.MouseEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    const index = cellAt(grid, ids.length, event.clientX - box.left - EDGE, event.clientY - box.top - EDGE);
    return index === null ? null : (nodes.get(ids[index] ?? "") ?? null);
  };
  return (
    <canvas
      ref={canvas}
      className="heat-map"
      data-pointed={isPointed}
      style={{ width: width + 2 * EDGE, height: height + 2 * EDGE, margin: -EDGE }}
      aria-hidden="true"
      onPointerMove={(event) => {
        const node = nodeAt(event);
        setPointed(node !== null);
        onPoint(node);
      }}
      onPointerLeave={() => onPoint(null)}
      onClick={(event) => {
        const node = nodeAt(event);
        if (node) onOpen(node);
      }}
    />
  );
}

interface Drawing {
  readonly grid: Grid;
  readonly cells: Int8Array;
  /** Null: nothing is drawn yet. */
  readonly before: Int8Array | null;
  readonly colors: Colors;
}

/** A failed cell is larger than its place, so it is drawn last, and its neighbors again when it ends. */
function draw(context: CanvasRenderingContext2D, { grid, cells, before, colors }: Drawing): void {
  const { columns } = grid;
  const stale = new Set<number>();
  for (const [index, value] of cells.entries()) {
    if (before && before[index] === value) continue;
    stale.add(index);
    if (before?.[index] !== FAILED) continue;
    for (const row of [-columns, 0, columns])
      for (const column of [-1, 0, 1]) {
        const neighbor = index + row + column;
        if (neighbor >= 0 && neighbor < cells.length) stale.add(neighbor);
      }
  }
  for (const index of stale) clearCell(context, grid, index, before?.[index] === FAILED ? EDGE : 0);
  for (const index of stale)
    if (cells[index] !== FAILED) drawCell(context, grid, index, cells[index] ?? DIMMED, colors);
  for (const [index, value] of cells.entries()) if (value === FAILED) drawFailed(context, grid, index, colors);
}

function placeOf({ cell, columns }: Grid, index: number): readonly [number, number] {
  return [(index % columns) * cell, Math.floor(index / columns) * cell];
}

/** `edge`: pixels around the cell that are cleared too. */
function clearCell(context: CanvasRenderingContext2D, grid: Grid, index: number, edge: number): void {
  const [x, y] = placeOf(grid, index);
  context.clearRect(x - edge, y - edge, grid.cell + 2 * edge, grid.cell + 2 * edge);
}

function drawCell(context: CanvasRenderingContext2D, grid: Grid, index: number, value: number, colors: Colors): void {
  const [x, y] = placeOf(grid, index);
  const size = grid.cell - (grid.cell > 8 ? 2 : 1);
  const family = FAMILIES[value];
  context.fillStyle = family === undefined ? colors.dimmed : colors[family];
  if (family === "waiting") {
    // Hollow.
    context.fillRect(x, y, size, size);
    const edge = Math.max(1, Math.round(size / 5));
    context.clearRect(x + edge, y + edge, size - 2 * edge, size - 2 * edge);
  } else if (family === "aside") {
    context.fillRect(x, y + Math.round(size / 3), size, Math.max(2, Math.round(size / 3)));
  } else if (family === "working") {
    context.fillRect(x, y, size, size);
    context.fillStyle = colors.ground;
    const inner = Math.max(1, Math.round(size / 4));
    context.fillRect(x + size - 2 * inner, y + inner, inner, size - 2 * inner);
  } else context.fillRect(x, y, size, size);
}

function drawFailed(context: CanvasRenderingContext2D, grid: Grid, index: number, colors: Colors): void {
  const [x, y] = placeOf(grid, index);
  const more = Math.min(EDGE - 1, Math.max(1, grid.cell / 6));
  const size = grid.cell - 1;
  context.beginPath();
  context.moveTo(x + size / 2, y - more);
  context.lineTo(x + size + more, y + size + more / 2);
  context.lineTo(x - more, y + size + more / 2);
  context.closePath();
  context.fillStyle = colors.failed;
  context.fill();
  context.strokeStyle = colors.ground;
  context.lineWidth = 1;
  context.stroke();
}
