/**
 * `npm run go:client`: makes Go types and calls of the schema that a service serves, compiles a client with them and runs
 * it against that service: one of its own, or the one whose address is given (with OSTLER_TOKEN, if it has a token).
 *
 * Needs Go and the generator, as Debian has them. No part of the tests, which run where there is no Go.
 */
import { spawn, spawnSync } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const HOUSE = fileURLToPath(new URL("../../..", import.meta.url));
/** Where Debian puts the sources of Go packages. */
const GO_PACKAGES = "/usr/share/gocode";
const NEEDED = { go: "golang-go", gqlclientgen: "gqlclient" } as const;
const START_MS = 60_000;

function missing(): string[] {
  const programs = Object.entries(NEEDED)
    .filter(([program]) => spawnSync(program, ["-h"], { stdio: "ignore" }).error)
    .map(([, name]) => name);
  const found =
    programs.length > 0 ||
    spawnSync("go", ["list", "git.sr.ht/~emersion/gqlclient"], { env: goEnvironment(tmpdir()), stdio: "ignore" })
      .status === 0;
  return found ? programs : ["golang-sourcehut-emersion-gqlclient-dev"];
}

function goEnvironment(folder: string): NodeJS.ProcessEnv {
  return { ...process.env, GO111MODULE: "off", GOFLAGS: "", GOPATH: GO_PACKAGES, GOCACHE: join(folder, "cache") };
}

/** Runs a program to its end; throws when that was not a good one. */
function run(program: string, args: readonly string[], folder: string): void {
  const { status, error } = spawnSync(program, args, { cwd: folder, env: goEnvironment(folder), stdio: "inherit" });
  if (error || status !== 0) throw new Error(`${program} ${args.join(" ")} failed.`, { cause: error });
}

/** A service of our own, on a port that is free; ends with its disposal. */
async function ownService(folder: string): Promise<AsyncDisposable & { readonly url: string }> {
  const child = spawn(
    process.execPath,
    ["src/main.ts", "--port", "0", "--data", join(folder, "data"), "--plugins", "fake", "--log", "warn"],
    { cwd: HOUSE, stdio: ["ignore", "pipe", "inherit"] },
  );
  const ended = new Promise<void>((done) => child.on("close", () => done()));
  const url = await new Promise<string>((done, failed) => {
    let said = "";
    const late = setTimeout(() => child.kill(), START_MS);
    child.stdout.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      const [, found] = /ready: (\S+)/.exec(said) ?? [];
      if (found === undefined) return;
      clearTimeout(late);
      done(found);
    });
    void ended.then(() => {
      clearTimeout(late);
      failed(new Error("The service ended before it was ready."));
    });
  });
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill();
      await ended;
    },
  };
}

async function goClient(given: string | undefined): Promise<void> {
  const packages = missing();
  if (packages.length > 0) throw new Error(`This needs what is not here: apt-get install ${packages.join(" ")}`);
  const folder = await mkdtemp(join(tmpdir(), "ostler-go-"));
  await using parts = new AsyncDisposableStack();
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const url = given ?? parts.use(await ownService(folder)).url;
  const token = process.env["OSTLER_TOKEN"];
  const schema = await fetch(new URL("/schema.graphql", url), {
    headers: token ? { authorization: `Bearer ${token}` } : {},
  });
  if (!schema.ok) throw new Error(`${schema.url} was answered with ${schema.status}.`);
  await writeFile(join(folder, "schema.graphql"), await schema.text());
  await cp(join(HOUSE, "test/clients/operations.graphql"), join(folder, "operations.graphql"));
  await cp(join(HOUSE, "test/clients/go/main.go"), join(folder, "main.go"));
  run("gqlclientgen", ["-s", "schema.graphql", "-q", "operations.graphql", "-n", "main", "-o", "ostler.go"], folder);
  run("go", ["vet", "main.go", "ostler.go"], folder);
  run("go", ["build", "-o", "client", "main.go", "ostler.go"], folder);
  run(join(folder, "client"), [url], folder);
}

await goClient(process.argv[2]).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
