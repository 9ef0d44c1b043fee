/**
 * Leaves the memory of this process, and of processes that it starts, out of core dumps: it contains the secrets that
 * are in use. Back traces are lost with it; operations.md says how to get a complete dump.
 */
import { writeFileSync } from "node:fs";

/** No kind of mapping of core(5). Child processes inherit it, also those that replace their program. */
const NO_MAPPINGS = "0";

/** Returns false if this system does not allow it. */
export function omitMemoryFromCoreDumps(): boolean {
  try {
    writeFileSync("/proc/self/coredump_filter", NO_MAPPINGS);
    return true;
  } catch {
    return false;
  }
}
