/** JSON with sorted keys, and its hash: equal for values that differ only in the order of their keys. */
import { createHash } from "node:crypto";

/** Members that are undefined are left out, as `JSON.stringify` does. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .toSorted(([a], [b]) => (a < b ? -1 : 1));
    return `{${entries.map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`).join(",")}}`;
  }
  return JSON.stringify(value ?? null);
}

/** SHA-256 of the canonical JSON, in hexadecimal. */
export function hashOf(value: unknown): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}

/** Whether two values have the same JSON. */
export function isSameJson(one: unknown, other: unknown): boolean {
  return one === other || canonicalJson(one) === canonicalJson(other);
}
