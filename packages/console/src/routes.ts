/**
 * Addresses of the screens below /console. All that shapes a screen is in its address: a link shows the same to another
 * person. A screen declares its parameters, and a value that it does not know is reported and never used.
 */
import { useCallback } from "react";
import { useLocation, useSearch } from "wouter";

export const FLEET = "/";
export const WALL = "/wall";
export const nodePath = (name: string) => `/nodes/${encodeURIComponent(name)}`;
export const operationPath = (uuid: string) => `/operations/${encodeURIComponent(uuid)}`;

/** A part of a path as it was written; null if it is not valid, as `%zz`. */
export function partOfPath(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

/** The values that a parameter may have; null: every text. */
export type Parameters = Readonly<Record<string, readonly string[] | null>>;

export interface ReadParameters<Known extends Parameters> {
  readonly values: { readonly [Name in keyof Known]?: string };
  /** What the address has and the screen does not know, as `show=bogus`. */
  readonly unknown: readonly string[];
}

const SHOWN_LENGTH = 40;

export function readParameters<Known extends Parameters>(search: string, known: Known): ReadParameters<Known> {
  const values: Record<string, string> = {};
  const unknown: string[] = [];
  for (const [name, value] of new URLSearchParams(search)) {
    const choices = Object.hasOwn(known, name) ? known[name] : undefined;
    if (choices === null || choices?.includes(value)) values[name] = value;
    else unknown.push(`${name}=${value}`.slice(0, SHOWN_LENGTH));
  }
  return { values, unknown };
}

export function writeParameters(values: Readonly<Record<string, string | null | undefined>>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value != null && value !== "") parameters.set(name, value);
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
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
