/** The colors of the style sheet, for a canvas; another theme is another set. */
import { useSyncExternalStore } from "react";
import { FAMILIES } from "../words/states.ts";
import type { Family } from "../words/states.ts";

export type Colors = Readonly<Record<Family | "ground" | "dimmed", string>>;

const QUERIES = ["(prefers-color-scheme: dark)", "(forced-colors: active)"].map((query) => matchMedia(query));
const NAMES = [...FAMILIES, "ground", "dimmed"] as const;

let colors: Colors | null = null;

/** A property with `light-dark()` has its color only where it is used. */
function read(): Colors {
  const probe = document.createElement("i");
  document.body.append(probe);
  const found = NAMES.map((name) => {
    probe.style.color = `var(--${name}-cell, var(--${name}))`;
    return [name, getComputedStyle(probe).color] as const;
  });
  probe.remove();
  return Object.fromEntries(found) as Colors;
}

function subscribe(listener: () => void): () => void {
  const changed = () => {
    colors = null;
    listener();
  };
  for (const query of QUERIES) query.addEventListener("change", changed);
  return () => QUERIES.forEach((query) => query.removeEventListener("change", changed));
}

export function useColors(): Colors {
  return useSyncExternalStore(subscribe, () => (colors ??= read()));
}
