/**
 * `npm run tool -- go-client`: generates Go types and calls from the schema of a service, compiles a client with them
 * and runs it against the service: a temporary one, or the one at the given URL (with OSTLER_TOKEN if it needs a
 * token).
 *
 * Requires Go and the generator, as packaged by Debian. It is not part of the tests, which must also run without Go.
 */
import { spawn, spawnSync } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** Directory of the sources of Go packages on Debian. */
const GO_PACKAGES = "/usr/share/gocode";
const NEEDED = { go: "golang-go", gqlclientgen: "gqlclient" } as const;
const START_MS = 60_000;

function missing(): string[] {
  const programs = Object.entries(NEEDED)
    .filter(([program]) => spawnSync(program, ["-h"], { stdio: "ignore" }).error)
    .map(([, name]) => name);
  const hasPackages =
    programs.length > 0 ||
    spawnSync("go", ["list", "git.sr.ht/~emersion/gqlclient"], { env: goEnvironment(tmpdir()), stdio: "ignore" })
      .status === 0;
  return hasPackages ? programs : ["golang-sourcehut-emersion-gqlclient-dev"];
}

function goEnvironment(folder: string): NodeJS.ProcessEnv {
  return { ...process.env, GO111MODULE: "off", GOFLAGS: "", GOPATH: GO_PACKAGES, GOCACHE: join(folder, "cache") };
}

/** Runs a program. Throws if it fails. */
function run(program: string, args: readonly string[], folder: string): void {
  const { status, error } = spawnSync(program, args, { cwd: folder, env: goEnvironment(folder), stdio: "inherit" });
  if (error || status !== 0) throw new Error(`${program} ${args.join(" ")} failed.`, { cause: error });
}

/** A temporary service on a free port; it ends with its disposal. */
async function ownService(folder: string): Promise<AsyncDisposable & { readonly url: string }> {
  const child = spawn(
    process.execPath,
    ["src/main.ts", "--port", "0", "--data", join(folder, "data"), "--plugins", "fake", "--log", "warn"],
    { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] },
  );
  const ended = new Promise<void>((done) => child.on("close", () => done()));
  const url = await new Promise<string>((done, failed) => {
    let output = "";
    const timeout = setTimeout(() => child.kill(), START_MS);
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      const [, address] = /ready: (\S+)/.exec(output) ?? [];
      if (address === undefined) return;
      clearTimeout(timeout);
      done(address);
    });
    void ended.then(() => {
      clearTimeout(timeout);
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

async function goClient(serviceUrl: string | undefined): Promise<void> {
  const packages = missing();
  if (packages.length > 0) throw new Error(`Packages are missing: apt-get install ${packages.join(" ")}`);
  const folder = await mkdtemp(join(tmpdir(), "ostler-go-"));
  await using parts = new AsyncDisposableStack();
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const url = serviceUrl ?? parts.use(await ownService(folder)).url;
  const token = process.env["OSTLER_TOKEN"];
  const schema = await fetch(new URL("/schema.graphql", url), {
    headers: token ? { authorization: `Bearer ${token}` } : {},
  });
  if (!schema.ok) throw new Error(`${schema.url} returned status ${schema.status}.`);
  await writeFile(join(folder, "schema.graphql"), await schema.text());
  await cp(join(ROOT, "test/clients/operations.graphql"), join(folder, "operations.graphql"));
  await cp(join(ROOT, "test/clients/go/main.go"), join(folder, "main.go"));
  run("gqlclientgen", ["-s", "schema.graphql", "-q", "operations.graphql", "-n", "main", "-o", "ostler.go"], folder);
  run("go", ["vet", "main.go", "ostler.go"], folder);
  run("go", ["build", "-o", "client", "main.go", "ostler.go"], folder);
  run(join(folder, "client"), [url], folder);
}

await goClient(process.argv[2]).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
