/** The agent's own tests, which are in Go, and the archive that its build writes. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { Archive } from "../../packages/agent/build/archive.ts";

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL("../../packages/agent", import.meta.url));
const GO = [
  ...(process.env["PATH"] ?? "").split(":").map((folder) => join(folder, "go")),
  "/usr/lib/go-1.19/bin/go",
  fileURLToPath(new URL("../../data/agent/.build/tools/tree/usr/lib/go-1.19/bin/go", import.meta.url)),
].find((path) => existsSync(path));
const LIMIT_MS = 300_000;

if (GO === undefined) console.warn("SKIPPED: the tests of packages/agent need Go (Debian package golang-go).");

interface GoEvent {
  readonly Action: string;
  readonly Test?: string;
}

/** The names of Go tests by their verdict; subtests count as their test. */
async function goTests(): Promise<ReadonlyMap<string, string>> {
  const env = { ...process.env, CGO_ENABLED: "0", GOFLAGS: "-mod=mod", GOPROXY: "off" };
  const options = { cwd: PACKAGE, env, maxBuffer: 2 ** 26 };
  const { stdout } = await run(GO ?? "go", ["test", "-json", "./..."], options).catch(
    (error: unknown) => error as { stdout: string },
  );
  const events = stdout
    .trim()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as GoEvent);
  const verdicts = events.filter(({ Action, Test }) => Test !== undefined && ["pass", "fail", "skip"].includes(Action));
  return new Map(verdicts.map(({ Action, Test }) => [Test ?? "", Action]));
}

describe.skipIf(GO === undefined)("the program on the machine", () => {
  let verdicts: ReadonlyMap<string, string> = new Map();
  beforeAll(async () => {
    verdicts = await goTests();
  }, LIMIT_MS);

  test("all Go tests pass", () => {
    const failed = [...verdicts].filter(([, verdict]) => verdict === "fail");
    expect(failed).toEqual([]);
    expect(verdicts.size).toBeGreaterThan(40);
  });

  const rules: readonly [title: string, names: readonly string[]][] = [
    [
      "a wrong checksum, a transfer that ends and a cancel leave no disk that a machine starts from [R-480]",
      [
        "TestWrongChecksumLeavesNoPartitionTable",
        "TestServerThatNeverSendsTheRest",
        "TestImageThatUnpacksToMoreThanTheDisk",
        "TestCancelEndsATransferThatWaits",
      ],
    ],
    [
      "a broken transfer goes on where it broke, else from its beginning, a bounded number of times [R-481]",
      [
        "TestBrokenConnectionGoesOnWhereItBroke",
        "TestServerWithoutRangesIsAskedFromTheBeginningABoundedNumberOfTimes",
        "TestServerThatStalls",
        "TestRestartSucceeds",
      ],
    ],
    [
      "an image is written to a disk only if it is the only one that the hints match, or without hints the default [R-482]",
      ["TestSelect", "TestTheOnlyDiskNeedsNoHints", "TestListReadsKindsAndSerialsAndListsADiskOfTwoPathsOnce"],
    ],
    [
      "each disk is erased by the best means that it offers, and a disk to keep that does not exist stops all [R-483]",
      ["TestPlan", "TestLockedDriveFailsByName", "TestKeepOfAnUnknownDiskErasesNothing"],
    ],
    [
      "the seed goes behind the image, the last partition is grown up to it, and a repetition replaces the seed [R-484]",
      [
        "TestSeedGoesBehindTheImageAndRootIsGrownUpToIt",
        "TestSecondConfigurationReplacesTheSeed",
        "TestMBRImage",
        "TestImageThatFillsTheDiskHasNoRoomForASeed",
      ],
    ],
    [
      "a result is sent until the service has it, also by an agent that was started again, and its task is not repeated [R-485]",
      [
        "TestResultIsRepeatedUntilTheServiceHasIt",
        "TestResultOfAKilledAgentIsDeliveredByTheNext",
        "TestTaskWhoseResultWasTakenIsNotDoneAgain",
      ],
    ],
    [
      "an agent whose session is unknown for ten minutes, or used by another machine, powers the machine off [R-486]",
      ["TestUnknownSessionPowersOffAfterTenMinutes", "TestAnotherMachineWithTheSameSecretPowersOff"],
    ],
  ];
  test.each(rules)("%s", (_title, names) => {
    expect(names.map((name) => [name, verdicts.get(name)])).toEqual(names.map((name) => [name, "pass"]));
  });

  test("Go files are formatted", async () => {
    const { stdout } = await run(join(GO ?? "", "../gofmt"), ["-l", PACKAGE]).catch(() =>
      run("gofmt", ["-l", PACKAGE]),
    );
    expect(stdout).toBe("");
  });
});

test("an archive of the ramdisk has the same bytes in whichever order its files are added", () => {
  const files = [
    ["etc/ostler/session.json", "{}"],
    ["init", "#!/bin/sh\n"],
    ["bin/long-name", "x"],
  ] as const;
  const archiveOf = (list: typeof files | readonly (readonly [string, string])[]) => {
    const archive = new Archive();
    for (const [path, content] of list) archive.file(path, content);
    archive.link("sbin/modprobe", "/bin/busybox");
    return archive.bytes();
  };
  const bytes = archiveOf(files);
  expect(bytes.equals(archiveOf(files.toReversed()))).toBe(true);
  expect(bytes.length % 4).toBe(0);
  const names = [...bytes.toString("latin1").matchAll(/070701[0-9A-F]{104}([^\0]+)\0/g)].map((match) => match[1]);
  expect(names).toEqual([
    "bin",
    "bin/long-name",
    "etc",
    "etc/ostler",
    "etc/ostler/session.json",
    "init",
    "sbin",
    "sbin/modprobe",
    "TRAILER!!!",
  ]);
});
