/**
 * Bounds the garbage in the heap. By default V8 collects the old generation when it has grown to about three times the
 * size of what was in use at the last collection, which for 60 MB in use is 190.
 */
import { setFlagsFromString } from "node:v8";

/**
 * Growth between two collections of the old generation, in percent of what is in use. With 50, a cycle of a node took a
 * further 3 % of the service's CPU and the peak was 20 MB lower (bench/README.md, “Memory”).
 */
const GROWTH_PERCENT = 80;

/** V8 reads this flag at each collection, so it takes effect without an option on the command line. */
export function limitHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
}
