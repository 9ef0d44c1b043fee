/**
 * Calls of the program ipmitool, one process each. The password goes by environment, never by argument; the process
 * gets no other part of our environment but PATH. Every call is bounded in time and in output and ends with its signal.
 */
import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, lstatSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { Call } from "../../src/drivers/driver.ts";
import { IpmiError, judgeFailure } from "./failure.ts";
import { PRESENCE_MILLISECONDS, bmcAnswers } from "./presence.ts";
import { bmcName, silentSeconds } from "./settings.ts";
import type { IpmiSettings } from "./settings.ts";
import { timeLeft } from "./time-left.ts";

/** The part of a call that a process needs. */
export type BmcCall = Pick<Call<IpmiSettings>, "settings" | "signal" | "deadline" | "timed">;

/** One command of ipmitool. */
export interface Command {
  /** For messages: the end of "the BMC was asked to …". */
  readonly task: string;
  readonly words: readonly string[];
  /** What its output holds when it worked: ipmitool 1.8.19 ends with exit code 0 when a boot device is refused. */
  readonly expect: RegExp;
  /** Whether a part is worth having: some BMCs hold a record that ipmitool cannot read, and it then ends with exit code 1. */
  readonly takePartial?: true;
  /** Bound of this command where the usual one is too short. */
  readonly seconds?: number;
}

export interface Ipmitool {
  /** Output of the command; throws an `IpmiError`, or the signal's reason. */
  run(call: BmcCall, command: Command): Promise<string>;
}

const CALL_SECONDS = 30;
const OUTPUT_BYTES_MAX = 1024 * 1024;

/** For a driver that is only described. */
export const noIpmitool: Ipmitool = {
  run: () => Promise.reject(new Error("This ipmi driver was made to be described; it runs nothing.")),
};

/** Finds the program, or throws a sentence that says what to install. */
export function createIpmitool(): Ipmitool {
  const program = programOnPath("ipmitool");
  if (program === undefined) {
    throw new Error(
      "The ipmi driver needs the program ipmitool, which is not on the PATH; install it (Debian and Ubuntu: apt-get install ipmitool).",
    );
  }
  const home = makeHome();

  const runCommand = async (call: BmcCall, command: Command, milliseconds: number): Promise<string> => {
    const { settings } = call;
    const ended = await execute({
      program,
      words: [...sessionWords(settings), ...command.words],
      environment: { PATH: process.env["PATH"] ?? "", HOME: home, LC_ALL: "C", IPMI_PASSWORD: settings.password },
      milliseconds,
      signal: call.signal,
    });
    // A session that cannot be closed tells of a BMC that fell silent: what came until then is cut off anywhere.
    const whole =
      ended.worked || (command.takePartial === true && !ended.killed && !/Close Session/.test(ended.stderr));
    if (whole && command.expect.test(ended.stdout)) return ended.stdout;
    call.signal.throwIfAborted();
    const text = `${ended.stdout}\n${ended.stderr}`.replaceAll(settings.password, "***");
    const judgement = judgeFailure({
      bmc: bmcName(settings),
      task: command.task,
      username: settings.username,
      cipherSuite: settings.cipherSuite,
      privilege: settings.privilege,
      text,
      ...(ended.killed && { killedAfterSeconds: Math.round(milliseconds / 1000) }),
    });
    if ("verdict" in judgement) throw new IpmiError(judgement.verdict);
    const present = await bmcAnswers({
      address: settings.address,
      port: settings.port,
      milliseconds: PRESENCE_MILLISECONDS,
      signal: call.signal,
    });
    call.signal.throwIfAborted();
    throw new IpmiError(present ? judgement.present : judgement.silent);
  };

  return {
    async run(call, command) {
      call.signal.throwIfAborted();
      const { settings } = call;
      const seconds = Math.max(command.seconds ?? CALL_SECONDS, silentSeconds(settings) + 5);
      const milliseconds = Math.min(seconds * 1000, timeLeft(call));
      if (milliseconds <= 0) throw deadlinePassed(call, command.task);
      return call.timed(`ipmi ${nameOf(command)}`, () => runCommand(call, command, milliseconds));
    },
  };
}

/** Thrown when the engine's time for a call is over. */
export function deadlinePassed(call: BmcCall, task: string, cause?: unknown): IpmiError {
  const message = `BMC ${bmcName(call.settings)} did not ${task} before the deadline; look at the machine, and try again.`;
  return new IpmiError({ kind: "TIMEOUT", retryable: true, message }, cause === undefined ? {} : { cause });
}

/** The words of a command without their options: the few names that calls are known by. */
function nameOf({ words }: Command): string {
  return words.filter((word) => /^[a-z]+$/.test(word)).join(" ");
}

/** Arguments that open the session. `-v` makes ipmitool say why a login failed. */
function sessionWords(settings: IpmiSettings): string[] {
  const { address, port, username, cipherSuite, privilege, replySeconds, sessionTries } = settings;
  const bmc = ["-I", "lanplus", "-H", address, "-p", String(port)];
  const login = ["-U", username, "-E", "-C", String(cipherSuite), "-L", privilege];
  return [...bmc, ...login, "-N", String(replySeconds), "-R", String(sessionTries), "-v"];
}

interface Ended {
  /** Exit code 0. */
  readonly worked: boolean;
  /** Killed for taking too long. */
  readonly killed: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end and never throws: a failed one is a value. */
function execute(options: {
  readonly program: string;
  readonly words: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly milliseconds: number;
  readonly signal: AbortSignal;
}): Promise<Ended> {
  return new Promise((resolve) => {
    const child = execFile(
      options.program,
      options.words,
      {
        env: options.environment,
        timeout: Math.ceil(options.milliseconds),
        killSignal: "SIGKILL",
        maxBuffer: OUTPUT_BYTES_MAX,
        signal: options.signal,
        encoding: "utf8",
      },
      (error, stdout, stderr) => {
        const said =
          error !== null && typeof error.code === "string" ? `${stderr}\n${error.message.split("\n")[0]}` : stderr;
        resolve({
          worked: error === null,
          killed: error?.killed === true && error.code === null,
          stdout,
          stderr: said,
        });
      },
    );
    child.stdin?.end();
  });
}

/**
 * A home for ipmitool, which reads 4.7 MB of vendor names at each start unless there is a list in its home: 28 ms against 10.
 * It is the same for all processes of this user, since one that is killed takes nothing away. Where it cannot be had, or
 * somebody clears it away, calls are slower and nothing else.
 */
function makeHome(): string {
  const home = join(tmpdir(), `ostler-ipmi-${process.getuid?.() ?? 0}`);
  const lists = join(home, ".local", "usr", "share", "misc");
  const list = join(lists, "enterprise-numbers.txt");
  try {
    mkdirSync(home, { recursive: true, mode: 0o700 });
    if (!isOurs(home)) return NO_HOME;
    mkdirSync(lists, { recursive: true });
    if (!existsSync(list)) writeFileSync(list, "0\n  Reserved\n");
    return home;
  } catch {
    return NO_HOME;
  }
}

const NO_HOME = "/nonexistent";

/** Whether it is a folder that nobody else can write to. */
function isOurs(folder: string): boolean {
  const { mode, uid } = lstatSync(folder);
  return uid === (process.getuid?.() ?? 0) && (mode & 0o170077) === 0o040000;
}

function programOnPath(name: string): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      if (statSync(file).isFile()) return file;
    } catch {
      // Not here: look in the next folder.
    }
  }
  return undefined;
}
