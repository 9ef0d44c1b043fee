/** Refusals of a release, through its command, in a repository that has only what the command reads. */
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FILES = ["package.json", ...globSync("packages/*/package.json", { cwd: ROOT })];
const repository = mkdtempSync(join(tmpdir(), "ostler-release-"));
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
afterAll(() => rmSync(repository, { recursive: true, force: true }));

function git(...args: readonly string[]): void {
  const identity = ["-c", "user.name=test", "-c", "user.email=test@ostler.example"];
  const { status, stderr } = spawnSync("git", [...identity, ...args], { cwd: repository, encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
}

function release(...args: readonly string[]) {
  const program = join(repository, "packages/release/main.ts");
  // Without a program of a build, so that nothing is built where all of them are installed.
  const env = { ...process.env, PATH: join(repository, "bin") };
  const { status, stderr } = spawnSync(process.execPath, [program, ...args], { env, encoding: "utf8" });
  return { status, stderr };
}

beforeAll(() => {
  for (const path of ["packages/release", "packages/agent/build"])
    cpSync(join(ROOT, path), join(repository, path), { recursive: true });
  for (const path of FILES) {
    mkdirSync(dirname(join(repository, path)), { recursive: true });
    cpSync(join(ROOT, path), join(repository, path));
  }
  symlinkSync(join(ROOT, "node_modules"), join(repository, "node_modules"));
  writeFileSync(join(repository, ".gitignore"), "node_modules\nbin\nrelease\n");
  git("init", "--quiet");
  git("add", "--all");
  git("commit", "--quiet", "--message", "all");
  mkdirSync(join(repository, "bin"));
  const found = spawnSync("which", ["git"], { encoding: "utf8" }).stdout.trim();
  symlinkSync(found, join(repository, "bin/git"));
});

beforeEach(() => {
  rmSync(join(repository, "release"), { recursive: true, force: true });
  git("checkout", "--quiet", ".");
  git("clean", "--quiet", "--force");
});

const put = (path: string, text: string) => {
  mkdirSync(dirname(join(repository, path)), { recursive: true });
  writeFileSync(join(repository, path), text);
};

test.each([
  {
    what: "a file that is in no commit",
    make: () => put("left-over.ts", ""),
    says: "The checkout has changes that are in no commit: left-over.ts. Commit or remove them.",
  },
  {
    what: "five changed files",
    make: () => ["a", "b", "c", "d", "e"].forEach((name) => put(name, "")),
    says: "The checkout has changes that are in no commit: a, b, c and 2 more. Commit or remove them.",
  },
  {
    what: "a version that is built already",
    make: () => put(`release/${version}/SHA256SUMS`, ""),
    says: `${join(repository, "release", version)} exists. Raise the version in package.json, or remove the folder.`,
  },
  {
    what: "a key that does not exist",
    args: ["--key", "/no/such.key"],
    says: "There is no key /no/such.key.",
  },
  {
    what: "missing programs",
    says: /^Missing: apt-get, .*mmdebstrap, buildah\. Install the Debian packages: apt-get install --no-install-recommends .*\n$/,
  },
  {
    what: "a key, and without the program that signs",
    make: () => put("bin/key", ""),
    args: ["--key", join(repository, "bin/key")],
    says: /^Missing: .*, minisign\. Install the Debian packages: .* minisign .*\n$/,
  },
  {
    what: "an option that does not exist",
    args: ["--kye", "x"],
    says: "Unknown option '--kye'",
  },
])("a release with $what is refused in one sentence, and leaves no folder [R-864]", ({ make, args = [], says }) => {
  make?.();
  const before = existsSync(join(repository, "release"));
  const { status, stderr } = release(...args);
  expect(stderr).toMatch(says);
  expect(stderr.trimEnd()).not.toContain("\n");
  expect(status).toBe(1);
  expect(existsSync(join(repository, "release", `.${version}`))).toBe(false);
  expect(existsSync(join(repository, "release"))).toBe(before);
});

test("a package with another version than package.json is refused [R-864]", () => {
  const path = "packages/client/package.json";
  put(path, readFileSync(join(repository, path), "utf8").replace(`"version": "${version}"`, '"version": "9.9.9"'));
  git("commit", "--quiet", "--all", "--message", "another version");
  expect(release().stderr).toBe(`${path} has version 9.9.9, and package.json ${version}.\n`);
  git("reset", "--quiet", "--hard", "HEAD~1");
});
