/**
 * Memory shared by the workers of one driver: a bounded LRU map in the service's process, lost when the service ends.
 */
import type { DriverMemory, Json } from "../driver.ts";

const ENTRIES_MAX = 200_000;
const LENGTH_MAX = 64 * 1024 * 1024;
/** Characters of one value as JSON, with its key. */
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
      // A key without a length would corrupt the size accounting.
      if (typeof key !== "string")
        throw new TypeError(`A key of a driver's memory must be a string, not a ${typeof key}.`);
      const text = value === undefined ? undefined : JSON.stringify(value);
      if (text !== undefined && key.length + text.length > ENTRY_LENGTH_MAX)
        throw new RangeError(
          `A value in a driver's memory may have ${ENTRY_LENGTH_MAX} characters; this one has ${text.length}.`,
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
