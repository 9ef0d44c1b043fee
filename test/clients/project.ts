/** A project of a user's, made in a folder of its own: the files of test/clients/projects, the packages of ours, and the schema as it is served. */
import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Reached } from "./client.ts";

const HOUSE = fileURLToPath(new URL("../..", import.meta.url));

export interface Project extends AsyncDisposable {
  readonly folder: string;
  /** Runs a command of ours there, as `npx` would; answers what it said, and whether it succeeded. */
  run(command: string, ...args: readonly string[]): Promise<{ readonly succeeded: boolean; readonly said: string }>;
  /** Puts one text in place of another that stands in a file exactly once. */
  change(file: string, before: string, after: string): Promise<void>;
}

export async function clientProject(name: "relay" | "codegen" | "tada", { url, headers }: Reached): Promise<Project> {
  const schema = await fetch(new URL("/schema.graphql", url), { headers });
  if (!schema.ok) throw new Error(`The schema was answered with ${schema.status}.`);
  const folder = await mkdtemp(join(tmpdir(), `ostler-${name}-`));
  await cp(join(HOUSE, "test/clients/projects", name), folder, { recursive: true });
  await cp(join(HOUSE, "test/clients/operations.graphql"), join(folder, "operations.graphql"));
  await writeFile(join(folder, "schema.graphql"), await schema.text());
  await symlink(join(HOUSE, "node_modules"), join(folder, "node_modules"));
  return {
    folder,
    run: (command, ...args) =>
      new Promise((done, failed) => {
        const child = spawn(join(HOUSE, "node_modules/.bin", command), args, {
          cwd: folder,
          stdio: ["ignore", "pipe", "pipe"],
        });
        let said = "";
        for (const stream of [child.stdout, child.stderr])
          stream.on("data", (chunk: Buffer) => void (said += chunk.toString()));
        child.on("error", failed);
        child.on("close", (code) => done({ succeeded: code === 0, said }));
      }),
    async change(file, before, after) {
      const path = join(folder, file);
      const parts = (await readFile(path, "utf8")).split(before);
      if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times ${before}.`);
      await writeFile(path, parts.join(after));
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}
