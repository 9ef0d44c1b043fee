/**
 * What the workers of one driver have in common: a small memory in the service, bounded, gone when the service ends. What
 * was not touched for longest is forgotten first.
 */
import type { DriverMemory, Json } from "../driver.ts";

const ENTRIES_MAX = 200_000;
const LENGTH_MAX = 64 * 1024 * 1024;
/** Of one value with its key, as JSON. */
const ENTRY_LENGTH_MAX = 64 * 1024;

export function createMemory(): DriverMemory {
  const texts = new Map<string, string>();
  let length = 0;
  const drop = (key: string) => {
    const text = texts.get(key);
    if (text === undefined) return;
    texts.delete(key);
    length -= key.length + text.length;
  };
  return {
    async get(key) {
      const text = texts.get(key);
      if (text === undefined) return undefined;
      texts.delete(key);
      texts.set(key, text);
      return JSON.parse(text) as Json;
    },
    async set(key: unknown, value) {
      // A length that is none would have everything forgotten, now and later.
      if (typeof key !== "string")
        throw new TypeError(`A driver's memory goes by texts, and this key is a ${typeof key}.`);
      const text = value === undefined ? undefined : JSON.stringify(value);
      if (text !== undefined && key.length + text.length > ENTRY_LENGTH_MAX)
        throw new RangeError(
          `A driver's memory takes ${ENTRY_LENGTH_MAX} characters a value, and this one has ${text.length}.`,
        );
      drop(key);
      if (text === undefined) return;
      texts.set(key, text);
      length += key.length + text.length;
      for (const [oldest] of texts) {
        if (texts.size <= ENTRIES_MAX && length <= LENGTH_MAX) return;
        drop(oldest);
      }
    },
  };
}
