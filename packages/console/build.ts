/**
 * `npm run console:build`: builds the console into `dist`, from which the service serves it. `--if-changed` is for the
 * scripts of npm that build before something else: it builds only if the sources have changed, and if that fails, what
 * follows continues with the last good build. `--out` names another folder than `dist`.
 *
 * The files have their hash in their name, and come before the page that names them, which is replaced by a rename: a
 * service that runs, and another build at the same time, find whole pages only.
 */
import { createHash, randomUUID } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, stripVTControlCharacters } from "node:util";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SOURCES = ["packages/console/{src/**/*,*.{ts,html,json}}", "packages/client/src/*.ts", "package-lock.json"];
/** Why the last build failed; the service shows it if there is no page. */
const PROBLEM = join(HERE, "build-error.txt");
/** In the folder of a build: the hash of what it was built from. */
const STAMP = "sources.txt";

function hashOfSources(): string {
  const hash = createHash("sha256");
  const files = globSync(SOURCES, { cwd: ROOT, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const path of files.map(({ parentPath, name }) => join(parentPath, name)).toSorted())
    hash.update(`${path.slice(ROOT.length)}\0`).update(readFileSync(path));
  return hash.digest("hex");
}

function isCurrent(out: string, hash: string): boolean {
  const stamp = join(out, STAMP);
  return existsSync(join(out, "index.html")) && existsSync(stamp) && readFileSync(stamp, "utf8") === hash;
}

async function bundle(folder: string): Promise<void> {
  const vite = await import("vite").catch((cause: unknown) => {
    throw new Error("its packages are not installed; `npm ci` installs them", { cause });
  });
  // That of a shell would choose the slow, talkative form of React.
  process.env["NODE_ENV"] = "production";
  await vite.build({
    root: HERE,
    configFile: join(HERE, "vite.config.ts"),
    logLevel: "silent",
    build: { outDir: folder, emptyOutDir: true },
  });
}

/**
 * Moves a complete build to its place, and removes the files of earlier ones. Temporary files are beside the folder
 * that is cleared: another build at the same time would remove them.
 */
function publish(built: string, out: string, hash: string): void {
  const assets = join(out, "assets");
  const replace = (path: string, write: (path: string) => void) => {
    const temporary = join(out, `.${randomUUID()}`);
    write(temporary);
    renameSync(temporary, path);
  };
  mkdirSync(assets, { recursive: true });
  const names = readdirSync(join(built, "assets"));
  const kept = new Set<string>();
  for (const name of names) {
    const text = readFileSync(join(built, "assets", name));
    const variants = {
      "": text,
      ".br": brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: text.length } }),
      ".gz": gzipSync(text, { level: 9 }),
    };
    for (const [ending, content] of Object.entries(variants)) {
      kept.add(name + ending);
      replace(join(assets, name + ending), (path) => writeFileSync(path, content));
    }
  }
  for (const name of ["licenses.json", "index.html"])
    replace(join(out, name), (path) => copyFileSync(join(built, name), path));
  replace(join(out, STAMP), (path) => writeFileSync(path, hash));
  for (const name of readdirSync(assets)) if (!kept.has(name)) rmSync(join(assets, name), { force: true });
}

async function build(out: string, hash: string): Promise<void> {
  const folder = mkdtempSync(join(HERE, ".build-"));
  try {
    await bundle(folder);
    publish(folder, out, hash);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      "if-changed": { type: "boolean", default: false },
      out: { type: "string", default: join(HERE, "dist") },
    },
  });
  const out = resolve(values.out);
  try {
    const hash = hashOfSources();
    if (values["if-changed"] && isCurrent(out, hash)) return;
    await build(out, hash);
    rmSync(PROBLEM, { force: true });
  } catch (error) {
    const why = reasonOf(error);
    const rest = existsSync(join(out, "index.html")) ? " The console of the last good build stays." : "";
    console.error(`The console was not built: ${why}.${rest} \`npm run console:build\` tries again.`);
    note(why);
    if (!values["if-changed"]) process.exitCode = 1;
  }
}

/** Without colors, addresses of functions, and the path of the checkout, which the service would show. */
function reasonOf(error: unknown): string {
  const [reason = ""] = (error instanceof Error ? error.message : String(error)).split(/\n+Stack backtrace/);
  return stripVTControlCharacters(reason).replaceAll(ROOT, "").trim();
}

/** The folder may belong to another user. */
function note(why: string): void {
  try {
    writeFileSync(PROBLEM, `${why}\n`);
  } catch {
    // Then the service names the command alone.
  }
}

await main();
