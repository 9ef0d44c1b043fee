/**
 * The project: a folder with the playbooks of the site, named by the variable ANSIBLE_DRIVER_PROJECT. `ostler.json` in
 * it declares what the service must know of them.
 */
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readFileSync, readdirSync, readlinkSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import type { Interruptible, Touch } from "../../src/drivers/driver.ts";
import { lazySchema } from "../lazy-schema.ts";
import type { Output } from "../lazy-schema.ts";

export const PLAYS = ["configure", "unconfigure", "reset"] as const;
export type PlayName = (typeof PLAYS)[number];

/** A playbook as `ostler.json` declares it. */
export interface Play {
  /** Path in the project. */
  readonly playbook: string;
  readonly interruptible: Interruptible;
  readonly idempotent: boolean;
  readonly timeoutSeconds: number;
  readonly touches: readonly Touch[];
}

export interface Project {
  readonly folder: string;
  readonly plays: Readonly<Partial<Record<PlayName, Play>>>;
  /** Hash of the files. Throws if the declarations have changed since the project was opened. */
  revision(): string;
}

const MANIFEST = "ostler.json";
/** A project is not a place for data: each request reads the times of its files. */
const FILES_MAX = 10_000;

const manifest = lazySchema((z) => {
  const play = z.strictObject({
    playbook: z
      .string()
      .max(500)
      .regex(/^(?!\/)(?!.*(^|\/)\.\.(\/|$))[^-].*\.ya?ml$/, "is not the path of a playbook in the project")
      .optional(),
    interruptible: z.enum(["ALWAYS", "AT_BOUNDARY", "NEVER"]).optional(),
    idempotent: z.boolean().optional(),
    timeoutSeconds: z.int().min(1).max(86_400).optional(),
    touches: z.array(z.enum(["DISKS", "FIRMWARE", "NETWORK"])).optional(),
  });
  return z.strictObject({ configure: play.optional(), unconfigure: play.optional(), reset: play.optional() });
});

/** A play that the project does not declare. */
function defaultsOf(name: PlayName): Play {
  return {
    playbook: `${name}.yml`,
    interruptible: "AT_BOUNDARY",
    idempotent: name === "configure",
    timeoutSeconds: 3600,
    touches: [],
  };
}

/** The plays of a project that is not read, to describe the driver. */
export const noProject: Project = {
  folder: "",
  plays: Object.fromEntries(PLAYS.map((name) => [name, defaultsOf(name)])),
  revision: () => "",
};

/** Opens a project, or throws an error that names what is missing. */
export function openProject(folder: string | undefined): Project {
  if (!folder)
    throw new Error("The ansible driver needs a project; set ANSIBLE_DRIVER_PROJECT to the folder with configure.yml.");
  const declared = readManifest(folder);
  const { text, given } = declared;
  const plays: Partial<Record<PlayName, Play>> = {};
  for (const name of PLAYS) {
    const play = { ...defaultsOf(name), ...present(given[name]) };
    if (existsSync(join(folder, play.playbook))) plays[name] = play;
    else if (given[name] !== undefined || name !== "reset")
      throw new Error(`The project ${folder} has no ${play.playbook}, the playbook of the step ${name}; add it.`);
  }
  const files = new FileHashes();
  return {
    folder,
    plays,
    revision() {
      if (readText(join(folder, MANIFEST)) !== text)
        throw new Error(`${MANIFEST} in ${folder} has changed since the service began; restart the service.`);
      return revisionOf(folder, files);
    },
  };
}

function readManifest(folder: string): { readonly text: string | null; readonly given: Output<typeof manifest> } {
  const file = join(folder, MANIFEST);
  const text = readText(file);
  if (text === null) return { text, given: {} };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${file} is not JSON: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
  const parsed = manifest.safeParse(value);
  if (parsed.success) return { text, given: parsed.data };
  const flaws = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "it"}: ${message}`);
  throw new Error(`${file} is invalid: ${flaws.join("; ")}.`);
}

function readText(file: string): string | null {
  return existsSync(file) ? readFileSync(file, "utf8") : null;
}

// ---- revision

/**
 * A hash of the paths, contents and rights of all files. Names that begin with a dot do not count, so neither does the
 * history of git, nor do the caches of Python.
 */
function revisionOf(folder: string, hashes: FileHashes): string {
  const hash = createHash("sha256");
  for (const path of filesOf(folder)) hash.update(`${relative(folder, path)}\0${hashes.of(path)}\0`);
  return hash.digest("hex").slice(0, 40);
}

function filesOf(folder: string): readonly string[] {
  const found: string[] = [];
  const visit = (inside: string) => {
    const entries = readdirSync(inside, { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      if (entry.name.startsWith(".") || entry.name === "__pycache__") continue;
      const path = join(inside, entry.name);
      if (entry.isDirectory()) visit(path);
      else if (entry.isFile() || entry.isSymbolicLink()) found.push(path);
      if (found.length > FILES_MAX)
        throw new Error(`The project ${folder} has more than ${FILES_MAX} files; keep data elsewhere.`);
    }
  };
  visit(folder);
  return found;
}

/** Hashes of files, kept as long as their size and times stay the same. */
class FileHashes {
  readonly #known = new Map<string, { readonly stamp: string; readonly hash: string }>();

  of(path: string): string {
    const link = lstatSync(path).isSymbolicLink() ? readlinkSync(path) : "";
    if (link !== "" && !existsSync(path)) return `link ${link}`;
    const stat = statSync(path);
    if (!stat.isFile()) return `link ${link}`;
    const { size, mtimeMs, ctimeMs, ino, mode } = stat;
    const stamp = `${link} ${mode & 0o111} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;
    const known = this.#known.get(path);
    if (known?.stamp === stamp) return known.hash;
    const content = createHash("sha256").update(readFileSync(path)).digest("hex");
    const hash = `${link} ${mode & 0o111} ${content}`;
    this.#known.set(path, { stamp, hash });
    return hash;
  }
}

function present<T extends object>(value: T | undefined): Partial<{ [K in keyof T]: Exclude<T[K], undefined> }> {
  return Object.fromEntries(Object.entries(value ?? {}).filter(([, one]) => one !== undefined)) as Partial<{
    [K in keyof T]: Exclude<T[K], undefined>;
  }>;
}
