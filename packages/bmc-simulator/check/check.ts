/**
 * `npm run tool -- bmc-check`: clients that others wrote judge the simulator: sushy, the library of OpenStack Ironic,
 * and redfishtool of DMTF. Every preset is checked: sessions, power, boot device, BIOS settings, virtual media. `npm
 * run tool -- bmc-check ilo-like` checks one preset; `--tls` uses HTTPS.
 *
 * Needs the Debian packages python3-sushy and redfishtool. Ends `N passed, N failed`; the exit code is 0 only if all
 * passed.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { PRESET_NAMES, startBmc } from "../src/index.ts";
import type { SimulatedBmc, Traits } from "../src/index.ts";

const run = promisify(execFile);

/** Debian's modules belong to Debian's Python, whichever `python3` is found first. */
const PYTHON = "/usr/bin/python3";
const REDFISHTOOL = "/usr/bin/redfishtool";
const IMAGE = "http://127.0.0.1:8080/installer.iso";
const LIMIT_MS = 120_000;
const FAILED = " [exit code is not 0]";

interface Tally {
  passed: number;
  failed: number;
}

async function judgedBySushy(bmc: SimulatedBmc, tally: Tally): Promise<void> {
  const { userName, password } = bmc.credentials;
  const script = fileURLToPath(new URL("sushy-check.py", import.meta.url));
  const folder = mkdtempSync(join(tmpdir(), "bmc-check-"));
  const ca = join(folder, "ca.pem");
  writeFileSync(ca, bmc.tls?.ca ?? "");
  const args = [script, bmc.url, userName, password, IMAGE, ...beyondSushy(bmc.traits)];
  const output = await outputOf(PYTHON, args, bmc.tls ? { REQUESTS_CA_BUNDLE: ca } : {});
  rmSync(folder, { recursive: true });
  const [, passed = "0", failed = "1"] = /(\d+) passed, (\d+) failed\s*$/.exec(output) ?? [];
  tally.passed += Number(passed);
  tally.failed += Number(failed);
  console.log(output.replace(/^/gm, "  sushy  ").trimEnd());
}

/** Abilities that sushy 4.3 lacks; it judges the rest. */
function beyondSushy({ etags, media }: Traits): readonly string[] {
  return [...(etags === "required" ? ["etags"] : []), ...(media.onManager.length === 0 ? ["media"] : [])];
}

interface Command {
  readonly name: string;
  readonly args: readonly string[];
  /** Read from the output, or from the BMC for a command without output. */
  readonly isGood: (output: string) => boolean;
}

async function judgedByRedfishtool(bmc: SimulatedBmc, tally: Tally): Promise<void> {
  const { traits, credentials, state } = bmc;
  const login = ["-u", credentials.userName, "-p", credentials.password];
  const options = ["-r", new URL(bmc.url).host, ...login, "-S", bmc.url.startsWith("https") ? "Always" : "Never"];
  const system = ["Systems", "-I", traits.ids.system];
  const commands: readonly Command[] = [
    { name: "root", args: ["root"], isGood: (output) => output.includes("RedfishVersion") },
    { name: "system", args: system, isGood: (output) => output.includes("PowerState") },
    {
      name: "boot override",
      args: [...system, "setBootOverride", "Once", "Pxe"],
      isGood: () => state.boot.target === "Pxe" && state.boot.enabled === "Once",
    },
    { name: "power on", args: [...system, "reset", "On"], isGood: () => state.power !== "Off" },
    { name: "manager", args: ["Managers", "-1"], isGood: (output) => output.includes('"BMC"') },
    { name: "sessions", args: ["SessionService", "Sessions"], isGood: (output) => output.includes("Members") },
  ];
  for (const authentication of traits.login.basic ? ["Basic", "Session"] : ["Session"]) {
    state.power = "Off";
    for (const { name, args, isGood } of commands) {
      const output = await outputOf(REDFISHTOOL, [...options, "-A", authentication, ...args]);
      const passed = isGood(output) && !output.includes(FAILED);
      tally[passed ? "passed" : "failed"] += 1;
      const detail = passed ? "" : `: ${output.slice(0, 300).replaceAll("\n", " ")}`;
      console.log(`  redfishtool  ${passed ? "ok  " : "FAIL"} ${name} (${authentication})${detail}`);
    }
  }
}

/** Output of a program, also of one that fails. */
async function outputOf(
  program: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  try {
    const { stdout, stderr } = await run(program, [...args], {
      timeout: LIMIT_MS,
      env: { ...process.env, ...environment },
    });
    return stdout + stderr;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { readonly stdout?: string; readonly stderr?: string };
    return `${stdout}${stderr}${FAILED}`;
  }
}

const missing = [PYTHON, REDFISHTOOL].filter((path) => !existsSync(path));
if (missing.length > 0) {
  console.error(`Missing: ${missing.join(", ")}. Install the Debian packages python3-sushy and redfishtool.`);
  process.exit(1);
}
const { values, positionals } = parseArgs({ options: { tls: { type: "boolean" } }, allowPositionals: true });
const asked = PRESET_NAMES.filter((name) => positionals.length === 0 || positionals.includes(name));
const tally: Tally = { passed: 0, failed: 0 };
for (const traits of asked) {
  const timing = { powerOnMs: 100, powerOffMs: 100, bootMs: 100 };
  const bmc = await startBmc({ traits, timing, tls: values.tls ?? false });
  console.log(`${traits} at ${bmc.url}`);
  try {
    await judgedBySushy(bmc, tally);
    await judgedByRedfishtool(bmc, tally);
  } finally {
    await bmc.close();
  }
}
console.log(`${tally.passed} passed, ${tally.failed} failed`);
process.exit(tally.failed === 0 && tally.passed > 0 ? 0 : 1);
