/** The first driver of docs/drivers.md: its files pass the conformance suite as they are on the page. */
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "./support/eventually.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const page = readFileSync(join(ROOT, "docs/drivers.md"), "utf8");
const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text);

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("the first driver of docs/drivers.md passes the conformance suite as it is on the page", async () => {
  const folder = mkdtempSync(join(tmpdir(), "ostler-first-driver-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const torch = join(folder, "torch");
  mkdirSync(torch);
  symlinkSync(ROOT, join(folder, "ostler"));
  symlinkSync(join(ROOT, "node_modules"), join(torch, "node_modules"));
  writeFileSync(join(torch, "package.json"), '{ "type": "module", "private": true }');
  const port = await freePort();
  const files = {
    "controller.ts": "createServer(",
    "torch.ts": "function createTorch(",
    "torch.test.ts": 'from "node:test"',
  };
  for (const [file, sign] of Object.entries(files)) {
    const found = blocks.filter((text) => text.includes(sign));
    expect(found, file).toHaveLength(1);
    writeFileSync(join(torch, file), (found[0] ?? "").replaceAll("8090", String(port)));
  }

  const controller = spawn(process.execPath, ["controller.ts"], { cwd: torch, stdio: "ignore" });
  onTestFinished(() => void controller.kill());
  await eventually("the controller answers", () =>
    fetch(`http://127.0.0.1:${port}/power`).then(
      ({ status }) => status === 401,
      () => false,
    ),
  );
  const { NODE_OPTIONS: _options, VITEST: _vitest, ...env } = process.env;
  const { stdout } = await promisify(execFile)(process.execPath, ["--test", "--test-reporter=tap", "torch.test.ts"], {
    cwd: torch,
    env,
  });
  const count = /runs (\d+) checks/.exec(page)?.[1];
  expect(stdout).toContain(`# pass ${count}\n`);
  expect(stdout).toContain("# fail 0\n");
});
