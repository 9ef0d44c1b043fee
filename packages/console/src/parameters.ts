/** The codec of addresses: parts of paths, and parameters by what a screen declares. */

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
  /** Parameters of the address that the screen does not know, as `show=bogus`. */
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
