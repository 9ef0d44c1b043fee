/**
 * Addresses of the screens below /console. All that shapes a screen is in its address: a link shows the same to another
 * person. A screen declares its parameters, and a value that it does not know is reported and never used.
 */
import { useCallback } from "react";
import { useLocation, useSearch } from "wouter";
import { partOfPath, readParameters, writeParameters } from "./parameters.ts";
import type { Parameters } from "./parameters.ts";

export const FLEET = "/";
export const NODES = "/nodes";
export const CLUSTERS = "/clusters";
export const OPERATIONS = "/operations";
export const ACTIVITY = "/activity";
export const WALL = "/wall";
/** In the order of the header and of the palette. */
export const SCREENS = [
  [FLEET, "Fleet"],
  [NODES, "Nodes"],
  [CLUSTERS, "Clusters"],
  [OPERATIONS, "Operations"],
  [ACTIVITY, "Activity"],
  [WALL, "Wall"],
] as const;
export const nodePath = (name: string) => `/nodes/${encodeURIComponent(name)}`;
export const clusterPath = (name: string) => `${CLUSTERS}/${encodeURIComponent(name)}`;
/** The list of nodes with a filter. */
export const nodesPath = (filter: string) => `${NODES}?filter=${encodeURIComponent(filter)}`;
export const operationPath = (uuid: string) => `/operations/${encodeURIComponent(uuid)}`;

const TITLE_LENGTH = 40;

/** Of the tab, so that several of them are not alike. */
export function titleOf(path: string): string {
  const [, name] = SCREENS.find(([to]) => to === path) ?? [];
  const part = path.split("/").at(-1) ?? "";
  return `${name ?? (partOfPath(part) ?? part).slice(0, TITLE_LENGTH)} · Ostler`;
}

/** The parameters of the screen, and a function that changes some of them in place. `known`: always the same object. */
export function useParameters<Known extends Parameters>(known: Known) {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const read = readParameters(search, known);
  const { values } = read;
  const change = useCallback(
    (next: { readonly [Name in keyof Known]?: string | null }) =>
      navigate(path + writeParameters({ ...values, ...next }), { replace: true }),
    [navigate, path, search],
  );
  return { ...read, change };
}
