/**
 * A user's project in a temporary folder: the files of test/clients/projects, the packages of this repository, and the
 * schema as the service returns it.
 */
import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Endpoint } from "./client.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface Project extends AsyncDisposable {
  readonly folder: string;
  /** Runs an installed command in the project, as `npx` would. Resolves with its output and whether it succeeded. */
  run(command: string, ...args: readonly string[]): Promise<{ readonly succeeded: boolean; readonly output: string }>;
  /** Replaces a text that occurs in a file exactly once. */
  change(file: string, before: string, after: string): Promise<void>;
}

export async function clientProject(name: "relay" | "codegen" | "tada", { url, headers }: Endpoint): Promise<Project> {
  const schema = await fetch(new URL("/schema.graphql", url), { headers });
  if (!schema.ok) throw new Error(`The service returned status ${schema.status} for the schema.`);
  const folder = await mkdtemp(join(tmpdir(), `ostler-${name}-`));
  await cp(join(ROOT, "test/clients/projects", name), folder, { recursive: true });
  await cp(join(ROOT, "test/clients/operations.graphql"), join(folder, "operations.graphql"));
  await writeFile(join(folder, "schema.graphql"), await schema.text());
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return {
    folder,
    run: (command, ...args) =>
      new Promise((done, failed) => {
        const child = spawn(join(ROOT, "node_modules/.bin", command), args, {
          cwd: folder,
          stdio: ["ignore", "pipe", "pipe"],
        });
        let output = "";
        for (const stream of [child.stdout, child.stderr])
          stream.on("data", (chunk: Buffer) => void (output += chunk.toString()));
        child.on("error", failed);
        child.on("close", (code) => done({ succeeded: code === 0, output }));
      }),
    async change(file, before, after) {
      const path = join(folder, file);
      const parts = (await readFile(path, "utf8")).split(before);
      if (parts.length !== 2) throw new Error(`${file} contains ${before} ${parts.length - 1} times, not once.`);
      await writeFile(path, parts.join(after));
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}
