/** Secrets of the service, as another process of the same user finds them in /proc. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

const MODULE = new URL("../../src/runtime/hidden-secrets.ts", import.meta.url).href;
const PROGRAM = `
const { hideSecrets } = await import(${JSON.stringify(MODULE)});
const hidden = hideSecrets(process.env, ["flag-secret-1"]);
console.log(JSON.stringify({ hidden, token: process.env.OSTLER_TOKEN ?? null, kept: process.env.PGPASSWORD, path: process.env.PATH }));
setInterval(() => {}, 1000);
`;

test.skipIf(process.platform !== "linux")(
  "token in the service's environment or command line cannot be read from /proc by a driver's process [R-213]",
  async () => {
    const environment = { PATH: "/usr/bin", OSTLER_TOKEN: "token-secret-1", PGPASSWORD: "kept-secret-1" };
    const child = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM, "--", "--token", "flag-secret-1"], {
      env: environment,
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [printed] = (await once(child.stdout, "data")) as [Buffer];
    expect(JSON.parse(printed.toString())).toEqual({
      hidden: true,
      token: null,
      kept: "kept-secret-1",
      path: "/usr/bin",
    });
    const shown = ["environ", "cmdline"].map((file) => readFileSync(`/proc/${child.pid}/${file}`, "latin1")).join("\n");
    expect(shown).toContain("PATH=/usr/bin");
    for (const secret of ["token-secret-1", "kept-secret-1"]) expect(shown).not.toContain(secret);
    // The program's own text names the flag's value.
    expect(shown.endsWith("flag-secret-1\0")).toBe(false);
  },
);
