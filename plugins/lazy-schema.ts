/**
 * Schemas of the bundled drivers. zod is loaded when one of them is first used: the service validates settings and
 * arguments, so most processes that run drivers never load it. It is half of the CPU of their start.
 */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type * as Zod from "zod";

const load = createRequire(import.meta.url);

/** A schema that is made when it is first used. */
export interface LazySchema<Made extends Zod.ZodType> {
  /** The schema itself, to compose others of it. */
  readonly zod: Made;
  readonly "~standard": Made["~standard"];
  parse(value: unknown): Zod.output<Made>;
  safeParse(value: unknown): Zod.ZodSafeParseResult<Zod.output<Made>>;
}

export type Output<Schema extends LazySchema<Zod.ZodType>> = Zod.output<Schema["zod"]>;

export function lazySchema<Made extends Zod.ZodType>(make: (z: typeof Zod) => Made): LazySchema<Made> {
  let made: Made | undefined;
  const schema = () => (made ??= make(zod()));
  return {
    get zod() {
      return schema();
    },
    get "~standard"() {
      return schema()["~standard"];
    },
    parse: (value) => schema().parse(value),
    safeParse: (value) => schema().safeParse(value),
  };
}

/**
 * The module that `import` loads, not its copy for CommonJS, of which the service would have both. Its global names are
 * hidden: the service would replace a process in which a call has added some.
 */
function zod(): typeof Zod {
  const module = load(fileURLToPath(import.meta.resolve("zod"))) as typeof Zod;
  for (const name of Object.keys(globalThis))
    if (name.startsWith("__zod_")) Object.defineProperty(globalThis, name, { enumerable: false });
  return module;
}
