/**
 * `ostler-client/filter`: the text form of `NodeFilter`, for command lines and search fields. `parseFilter` makes terms
 * of a text, `toNodeFilter` a filter of terms, `printFilter` a text of terms, and `completeFilter` lists what can
 * follow. Terms are separated by spaces and combined with AND; `-` negates one. `:` equals one of the values, `^`
 * starts with, `~` contains. `*` stands for nothing, and is refused. Values with spaces, commas, quotes or `*` stand in
 * double quotes, in which `\` precedes `"` and `\`.
 */
import { nearest } from "./nearest.ts";
import { FILTER_VALUES } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";
import { NODE_STATES } from "./node-state.ts";
import type { NodeState } from "./node-state.ts";

export { nearest };

export type FilterOperator = ":" | "^" | "~";

export interface FilterTerm {
  readonly negated: boolean;
  /** A field of the language, or `label.` and a key. A bare word is `name` with the operator `~`. */
  readonly field: string;
  /** Null: the object has the label, with any value. */
  readonly operator: FilterOperator | null;
  readonly values: readonly string[];
}

export interface FilterFlaw {
  readonly message: string;
  /** Position of the first character at fault, from 0. */
  readonly position: number;
  /** The known word that was likely meant. */
  readonly nearest: string | null;
}

/** A filter for queries and verbs. Streams refuse `serial`. */
export type NodeFilterOfText = NodeFilter & { readonly serial?: string; readonly not?: NodeFilterOfText };

export interface FilterOptions {
  /** Whether the filter is for a stream, which refuses `serial`. */
  readonly stream?: boolean;
}

const STATE_GROUPS: Readonly<Record<string, (state: NodeState) => boolean>> = {
  failed: (state) => state.endsWith("_FAILED"),
  working: (state) => state.endsWith("ING"),
  waiting: (state) => /_(WAIT|HOLD)$/.test(state),
};

const FLAGS: Readonly<Record<string, NodeFilterOfText>> = {
  error: { withErrors: true },
  maintenance: { maintenance: true },
  protected: { protected: true },
  retired: { retired: true },
  drifted: { powerDrift: true },
  faulty: { faulty: true },
  diskless: { diskless: true },
};

interface Field {
  /** The only words that the field accepts; absent: it accepts every text. */
  readonly words?: readonly string[];
  /** Further operators beside `:`. */
  readonly operators?: readonly FilterOperator[];
  readonly isSingle?: true;
  readonly isFlawed?: (value: string) => string | null;
  filter(values: readonly string[], operator: FilterOperator, now: Date): NodeFilterOfText;
}

const oneOf = (field: "driver" | "hostGroup" | "model" | "mac" | "serial"): Field => ({
  filter: (values) => anyOf(values.map((value) => ({ [field]: value }))),
});
const choice = (field: "powerStates" | "presences" | "errorCodes"): Field => ({
  words: FILTER_VALUES[field].map(toWord),
  filter: (values) => ({ [field]: values.map(toName) }),
});

const FIELDS: Readonly<Record<string, Field>> = {
  name: {
    operators: ["^", "~"],
    filter(values, operator) {
      if (operator === ":") return { name: { in: values } };
      const by = operator === "^" ? "startsWith" : "contains";
      return anyOf(values.map((value) => ({ name: { [by]: value } })));
    },
  },
  state: {
    words: [...Object.keys(STATE_GROUPS), ...NODE_STATES.map(toWord)],
    filter: (values) => ({
      states: NODE_STATES.filter((state) =>
        values.some((value) => STATE_GROUPS[value]?.(state) ?? toName(value) === state),
      ),
    }),
  },
  cluster: {
    filter: (values) =>
      anyOf(values.map((value) => (value === "none" ? { inCluster: false } : { cluster: { name: value } }))),
  },
  power: choice("powerStates"),
  presence: choice("presences"),
  error: choice("errorCodes"),
  driver: oneOf("driver"),
  group: oneOf("hostGroup"),
  model: oneOf("model"),
  mac: oneOf("mac"),
  serial: oneOf("serial"),
  is: {
    words: Object.keys(FLAGS),
    filter: (values) => anyOf(values.map((value) => FLAGS[value] ?? {})),
  },
  changed: {
    isSingle: true,
    isFlawed: (value) =>
      timeSince(value, new Date()) === null
        ? "use a duration such as 90s, 15m, 2h or 7d, or a time as in RFC 3339"
        : null,
    filter: ([value = ""], _operator, now) => ({ changedSince: timeSince(value, now) }),
  },
};

const LABEL = "label.";

/** The terms of a text, or its first flaw. */
export function parseFilter(
  text: string,
  { stream = false }: FilterOptions = {},
): { readonly terms: readonly FilterTerm[] } | { readonly flaw: FilterFlaw } {
  const terms: FilterTerm[] = [];
  for (const word of wordsOf(text)) {
    const found = termOf(word, stream);
    if ("flaw" in found) return found;
    terms.push(found);
  }
  return { terms };
}

/** The filter of all terms; one without conditions if there are none. */
export function toNodeFilter(terms: readonly FilterTerm[], now = new Date()): NodeFilterOfText {
  const filter: Record<string, unknown> = {};
  const excluded: NodeFilterOfText[] = [];
  for (const term of terms) {
    const one = filterOf(term, now);
    // A filter has each condition once: further ones are excluded by their opposite.
    if (term.negated) excluded.push(one);
    else if (Object.keys(one).some((name) => name in filter)) excluded.push({ not: one });
    else Object.assign(filter, one);
  }
  if (excluded.length > 0) filter["not"] = anyOf(excluded);
  return filter;
}

/** A text that parses to the same terms. */
export function printFilter(terms: readonly FilterTerm[]): string {
  return terms
    .map(({ negated, field, operator, values }) => {
      const what = operator === null ? field : `${field}${operator}${values.map(quoted).join(",")}`;
      return `${negated ? "-" : ""}${what}`;
    })
    .join(" ");
}

export interface FilterCompletion {
  /** The part of the text that each option replaces: from here to the cursor. */
  readonly from: number;
  readonly options: readonly string[];
}

/** The words that can stand at the cursor. `known`: values of fields that the language does not list. */
export function completeFilter(
  text: string,
  cursor = text.length,
  known: Readonly<Record<string, readonly string[]>> = {},
): FilterCompletion {
  const before = text.slice(0, cursor);
  const word = wordsOf(before).at(-1);
  const start = word && word.end === before.length ? word.start : before.length;
  const typed = before.slice(start);
  const at = typed.search(/[:^~]/);
  if (at < 0) {
    const sign = typed.startsWith("-") ? 1 : 0;
    const labels = (known["label"] ?? []).map((key) => `${LABEL}${key}`);
    const fields = [...Object.keys(FIELDS).map((name) => `${name}:`), ...labels];
    return { from: start + sign, options: fields.filter((name) => name.startsWith(typed.slice(sign))) };
  }
  const field = typed.slice(typed.startsWith("-") ? 1 : 0, at);
  const from = Math.max(at, typed.lastIndexOf(",")) + 1;
  const others = Object.hasOwn(known, field) ? known[field] : undefined;
  const listed = Object.hasOwn(FIELDS, field) ? FIELDS[field]?.words : undefined;
  const words = listed ?? [...(field === "cluster" ? ["none"] : []), ...(others ?? [])];
  const begun = typed.slice(from).toLowerCase();
  return { from: start + from, options: words.map(quoted).filter((name) => name.toLowerCase().startsWith(begun)) };
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** Seconds of a duration such as `90s` or `1h30m`; null if it is none. */
export function durationSeconds(text: string): number | null {
  if (!/^(\d{1,9}[smhdw])+$/.test(text)) return null;
  return [...text.matchAll(/(\d+)([smhdw])/g)].reduce(
    (sum, [, count, unit = ""]) => sum + Number(count) * (UNITS[unit] ?? 0),
    0,
  );
}

function timeSince(value: string, now: Date): string | null {
  const seconds = durationSeconds(value);
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(value);
  if (seconds === null && !isTime) return null;
  const time = seconds === null ? new Date(value) : new Date(now.getTime() - seconds * 1000);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

function anyOf(filters: readonly NodeFilterOfText[]): NodeFilterOfText {
  const [first = {}] = filters;
  return filters.length === 1 ? first : { or: filters };
}

function filterOf({ field, operator, values }: FilterTerm, now: Date): NodeFilterOfText {
  if (field.startsWith(LABEL)) {
    const key = field.slice(LABEL.length);
    return operator === null ? { labelKeys: [key] } : anyOf(values.map((value) => ({ labels: [{ key, value }] })));
  }
  return FIELDS[field]?.filter(values, operator ?? ":", now) ?? {};
}

interface Word {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** The words of a text: spaces within quotes do not separate. */
function wordsOf(text: string): Word[] {
  return [...text.matchAll(/(?:"(?:\\.|[^"\\])*(?:"|\\?$)|[^\s"])+/g)].map(({ 0: word, index }) => ({
    text: word,
    start: index,
    end: index + word.length,
  }));
}

function flawAt(position: number, message: string, meant: string | null = null): { readonly flaw: FilterFlaw } {
  const hint = meant === null ? "" : ` Did you mean ${meant}?`;
  return { flaw: { position, nearest: meant, message: `Position ${position + 1}: ${message}${hint}` } };
}

function termOf({ text, start }: Word, isStream: boolean): FilterTerm | { readonly flaw: FilterFlaw } {
  const negated = text.startsWith("-");
  const body = negated ? text.slice(1) : text;
  const at = start + (negated ? 1 : 0);
  if (body === "") return flawAt(start, "`-` negates a term, which is missing.");
  const [, field = "", operator, rest = ""] = /^([^:^~"]*)([:^~])?([^]*)$/.exec(body) ?? [];
  const isLabel = field.startsWith(LABEL);
  if (isLabel && !/^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$/.test(field.slice(LABEL.length)))
    return flawAt(at + LABEL.length, "`label.` needs a key of letters, digits, dots, dashes, slashes or underscores.");
  if (operator === undefined) {
    if (isLabel)
      return rest === "" ? { negated, field, operator: null, values: [] } : flawAt(at + field.length, "expected `:`.");
    // As programs with selectors of labels have it. No name has this sign.
    const equals = /^[^",]*?(!?)==?/.exec(body);
    if (equals) {
      const sign = negated === (equals[1] === "!") ? "" : "-";
      return flawAt(start, "a term has `:`, not `=`.", sign + body.replace(/!?==?/, ":"));
    }
    const values = valuesOf(body, at, "name");
    return "flaw" in values
      ? values
      : { negated, field: "name", operator: "~", values: values.map(({ text: one }) => one) };
  }
  const known = isLabel ? {} : Object.hasOwn(FIELDS, field) ? FIELDS[field] : undefined;
  if (!known)
    return flawAt(
      at,
      `there is no field ${JSON.stringify(field)}. Use ${Object.keys(FIELDS).join(", ")} or label.KEY.`,
      nearest(field, Object.keys(FIELDS)),
    );
  if (isStream && field === "serial") return flawAt(at, "`serial` cannot be followed; use another field.");
  const { operators = [], words, isSingle, isFlawed } = known as Partial<Field>;
  const sign = operator as FilterOperator;
  if (sign !== ":" && !operators.includes(sign))
    return flawAt(at + field.length, `${field} takes \`:\`, not \`${sign}\`.`);
  const values = valuesOf(rest, at + field.length + 1, words ? null : field);
  if ("flaw" in values) return values;
  for (const { text: value, start: position } of values) {
    if (words && !words.includes(toWord(value)))
      return flawAt(
        position,
        `${field} has no value ${JSON.stringify(value)}. Use ${words.join(", ")}.`,
        nearest(toWord(value), words),
      );
    const flaw = isFlawed?.(value) ?? null;
    if (flaw !== null) return flawAt(position, `${field} cannot be ${JSON.stringify(value)}: ${flaw}.`);
  }
  if (isSingle && values.length > 1) return flawAt(values[1]?.start ?? at, `${field} takes one value.`);
  return { negated, field, operator: sign, values: values.map(({ text: value }) => (words ? toWord(value) : value)) };
}

/** The values of a list, unquoted, each with its position in the whole text. `field`: null if it lists its words. */
function valuesOf(list: string, at: number, field: string | null): Omit<Word, "end">[] | { readonly flaw: FilterFlaw } {
  const values: Omit<Word, "end">[] = [];
  let position = 0;
  do {
    const [part = ""] = /^(?:"(?:\\.|[^"\\])*"?|[^,"]*)/.exec(list.slice(position)) ?? [];
    const isQuoted = part.startsWith('"');
    if (isQuoted && !/^"(?:\\.|[^"\\])*"$/.test(part)) return flawAt(at + position, "the quote is not closed.");
    if (part === "") return flawAt(at + position, "a value is missing.");
    const star = isQuoted || field === null ? -1 : part.indexOf("*");
    if (star >= 0) return flawAt(at + position + star, starText(field ?? "", part));
    values.push({ text: isQuoted ? part.slice(1, -1).replace(/\\(.)/g, "$1") : part, start: at + position });
    position += part.length;
    if (position < list.length && list[position] !== ",") return flawAt(at + position, "expected a comma or a space.");
    position += 1;
  } while (position <= list.length);
  return values;
}

/** `*` for any characters is known from other programs. */
function starText(field: string, value: string): string {
  const [part = "a"] = value.split("*").filter((one) => one !== "");
  const remedy = field.startsWith(LABEL)
    ? `Use ${field} for every value of the label`
    : field === "name"
      ? `Use name^${part} for the beginning, or name~${part} for a part`
      : `${field} has whole values`;
  return `\`*\` does not stand for other characters. ${remedy}. A value with \`*\` takes double quotes.`;
}

function quoted(value: string): string {
  return /^[^\s,"\\*=]+$/.test(value) ? value : `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

function toWord(name: string): string {
  return name.toLowerCase().replaceAll("_", "-");
}

function toName(word: string): string {
  return word.toUpperCase().replaceAll("-", "_");
}
