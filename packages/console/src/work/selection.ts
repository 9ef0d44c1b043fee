/** The selected nodes: a frozen list of global IDs, which no filter and no change of a node changes. */
import { createSignal } from "../data/signal.ts";

export const selection = createSignal<ReadonlySet<string>>(new Set());

export function toggle(id: string): void {
  const next = new Set(selection.get());
  if (!next.delete(id)) next.add(id);
  selection.set(next);
}

/** Adds all of them, or takes all of them away if each is selected already. */
export function toggleAll(ids: readonly string[]): void {
  const next = new Set(selection.get());
  const areSelected = ids.every((id) => next.has(id));
  for (const id of ids)
    if (areSelected) next.delete(id);
    else next.add(id);
  selection.set(next);
}

export function add(ids: readonly string[]): void {
  selection.set(new Set([...selection.get(), ...ids]));
}

export function clearSelection(): void {
  selection.set(new Set());
}
