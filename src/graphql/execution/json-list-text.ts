/** JSON text inside of a result: the text of a list, and a `stringify` that puts it into the response unread. */
import { randomBytes } from "node:crypto";
import type { NodesJson } from "../../store/nodes/node-json.ts";
import type { Connection } from "../base/connection.ts";
import type { ListPlan, PageInfo } from "./json-list-plan.ts";

/** Key of a text in a result. It is random, so it occurs nowhere else. */
export const TEXT_KEY = `ready_${randomBytes(16).toString("hex")}`;
/** Any short value: `JSON.stringify` writes it for a text. */
const TEXT_VALUE = 0;
/** Stands in the written JSON where a text belongs. */
const TEXT_MARK = `{"${TEXT_KEY}":${TEXT_VALUE}}`;

/** Texts that the running `JSON.stringify` has met, in order. `toJSON` has no other way to pass them on. */
let metTexts: string[] | null = null;

/** The text of a list. It passes for a connection in resolvers; none of its members is read. */
export class JsonText implements Connection<never> {
  readonly text: string;
  readonly edges = [];
  readonly pageInfo: PageInfo = { hasNextPage: false, hasPreviousPage: false, startCursor: null, endCursor: null };
  readonly totalCount = () => Promise.resolve(0);

  constructor(text: string) {
    this.text = text;
  }

  toJSON(): typeof TEXT_VALUE {
    metTexts?.push(this.text);
    return TEXT_VALUE;
  }
}

/** The list of a plan: its members in the order of the request, from a page and a count. */
export function listText(
  { parts }: ListPlan,
  page: NodesJson | null,
  { totalCount, asOf }: { readonly totalCount: number; readonly asOf: string },
): JsonText {
  const pageInfo: PageInfo = {
    hasNextPage: page?.hasNext ?? false,
    hasPreviousPage: page?.hasPrevious ?? false,
    startCursor: page?.start ?? null,
    endCursor: page?.end ?? null,
  };
  const members = parts.map((part) => {
    const key = `${JSON.stringify(part.key)}:`;
    if ("text" in part) return key + part.text;
    if ("items" in part) return `${key}[${page?.items[part.items] ?? ""}]`;
    if ("totalCount" in part) return key + String(totalCount);
    if ("asOf" in part) return key + JSON.stringify(asOf);
    const fields = part.pageInfo.map(
      (field) => `${JSON.stringify(field.key)}:${"text" in field ? field.text : JSON.stringify(pageInfo[field.field])}`,
    );
    return `${key}{${fields.join(",")}}`;
  });
  return new JsonText(`{${members.join(",")}}`);
}

/** `JSON.stringify`, with texts in the places of their marks. */
export function stringifyWithTexts(result: unknown): string {
  const texts: string[] = [];
  metTexts = texts;
  let json: string;
  try {
    json = JSON.stringify(result);
  } finally {
    metTexts = null;
  }
  return json.split(TEXT_MARK).reduce((text, piece, index) => text + (texts[index - 1] ?? "") + piece);
}
