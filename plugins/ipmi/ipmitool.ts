/**
 * Calls of the program ipmitool, one process each. The password is passed by environment, never as an argument; of the
 * service's environment the process gets only PATH. Time and output of every call are limited, and it ends with its
 * signal.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Call } from "../../src/drivers/driver.ts";
import { IpmiError, beforeChange, classifyFailure } from "./failure.ts";
import { PRESENCE_MILLISECONDS, bmcAnswers } from "./presence.ts";
import { bmcName } from "../bmc-settings.ts";
import { privateFolder } from "../private-folder.ts";
import { programOnPath } from "../program-on-path.ts";
import { silentSeconds } from "./settings.ts";
import type { IpmiSettings } from "./settings.ts";
import { timeLeft } from "./time-left.ts";

/** The part of a call that a process needs. */
export type BmcCall = Pick<Call<IpmiSettings>, "settings" | "addresses" | "signal" | "deadline" | "timed">;

/** One command of ipmitool. */
export interface Command {
  /** For messages: the end of "the BMC was asked to …". */
  readonly task: string;
  readonly words: readonly string[];
  /** Matches the output of a successful call: ipmitool 1.8.19 exits with code 0 if a boot device is refused. */
  readonly expect: RegExp;
  /** Accept incomplete output: some BMCs have a record that ipmitool cannot read, and it then exits with code 1. */
  readonly acceptPartial?: true;
  /** Without `-v`, which changes the output of some commands. A failed login is then reported without its reason. */
  readonly terse?: true;
  /** Time limit of this command, if the usual one is too short. */
  readonly seconds?: number;
}

export interface Ipmitool {
  /** Output of the command; throws an `IpmiError`, or the signal's reason. */
  run(call: BmcCall, command: Command): Promise<string>;
}

const CALL_SECONDS = 30;
const OUTPUT_BYTES_MAX = 1024 * 1024;

/** For a driver whose declarations only are read. */
export const noIpmitool: Ipmitool = {
  run: () =>
    Promise.reject(new Error("This ipmi driver was created to read its declarations; it cannot run ipmitool.")),
};

/** Finds the program, or throws an error that names the package to install. */
export function createIpmitool(): Ipmitool {
  const program = programOnPath("ipmitool");
  if (program === undefined) {
    throw new Error(
      "The ipmi driver needs the program ipmitool, which is not on the PATH; install it (Debian and Ubuntu: apt-get install ipmitool).",
    );
  }
  const home = createHome();

  const runCommand = async (call: BmcCall, command: Command, milliseconds: number): Promise<string> => {
    const { settings } = call;
    const ended = await execute({
      program,
      words: [...sessionWords(settings, addressOf(call)), ...(command.terse ? [] : ["-v"]), ...command.words],
      environment: {
        PATH: process.env["PATH"] ?? "",
        HOME: home,
        LC_ALL: "C",
        TZ: "UTC",
        IPMI_PASSWORD: settings.password,
      },
      milliseconds,
      signal: call.signal,
    });
    // If the session cannot be closed, the BMC has stopped answering: the output can end anywhere.
    const whole =
      ended.succeeded || (command.acceptPartial === true && !ended.killed && !/Close Session/.test(ended.stderr));
    if (whole && command.expect.test(ended.stdout)) return ended.stdout;
    call.signal.throwIfAborted();
    const text = `${ended.stdout}\n${ended.stderr}`.replaceAll(settings.password, "***");
    const classification = classifyFailure({
      bmc: bmcName(settings),
      task: command.task,
      username: settings.username,
      cipherSuite: settings.cipherSuite,
      privilege: settings.privilege,
      text,
      ...(ended.killed && { killedAfterSeconds: Math.round(milliseconds / 1000) }),
    });
    if ("failure" in classification) throw new IpmiError(classification.failure);
    const present = await bmcAnswers({
      address: addressOf(call),
      port: settings.port,
      milliseconds: PRESENCE_MILLISECONDS,
      signal: call.signal,
    });
    call.signal.throwIfAborted();
    throw new IpmiError(present ? classification.present : classification.silent);
  };

  return {
    async run(call, command) {
      call.signal.throwIfAborted();
      const { settings } = call;
      const seconds = Math.max(command.seconds ?? CALL_SECONDS, silentSeconds(settings) + 5);
      const milliseconds = Math.min(seconds * 1000, timeLeft(call));
      if (milliseconds <= 0) throw beforeChange(deadlinePassed(call, command.task));
      return call.timed(`ipmi ${nameOf(command)}`, () => runCommand(call, command, milliseconds));
    },
  };
}

/** For a call whose deadline has passed. */
export function deadlinePassed(call: BmcCall, task: string, cause?: unknown): IpmiError {
  const message = `BMC ${bmcName(call.settings)} did not ${task} before the deadline; check the machine, and try again.`;
  return new IpmiError({ kind: "TIMEOUT", retryable: true, message }, cause === undefined ? {} : { cause });
}

/** The address to which the service has resolved the BMC's name for this call; else the address in the settings. */
export function addressOf({ settings, addresses }: Pick<BmcCall, "settings" | "addresses">): string {
  return addresses?.[settings.address] ?? settings.address;
}

/** The words of a command without options: the name of the call in metrics, one of a small set. */
function nameOf({ words }: Command): string {
  return words.filter((word) => /^[a-z]+$/.test(word)).join(" ");
}

/** Arguments that open the session. */
function sessionWords(settings: IpmiSettings, address: string): string[] {
  const { port, username, cipherSuite, privilege, replySeconds, sessionTries } = settings;
  const bmc = ["-I", "lanplus", "-H", address, "-p", String(port)];
  const login = ["-U", username, "-E", "-C", String(cipherSuite), "-L", privilege];
  return [...bmc, ...login, "-N", String(replySeconds), "-R", String(sessionTries)];
}

interface ProcessEnd {
  /** Exit code 0. */
  readonly succeeded: boolean;
  /** Killed after the time limit. */
  readonly killed: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end. Never rejects: the result states whether it failed. */
function execute(options: {
  readonly program: string;
  readonly words: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly milliseconds: number;
  readonly signal: AbortSignal;
}): Promise<ProcessEnd> {
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
        const errors =
          error !== null && typeof error.code === "string" ? `${stderr}\n${error.message.split("\n")[0]}` : stderr;
        resolve({
          succeeded: error === null,
          killed: error?.killed === true && error.code === null,
          stdout,
          stderr: errors,
        });
      },
    );
    child.stdin?.end();
  });
}

/**
 * Creates a home folder for ipmitool with a short list of vendors. Without one ipmitool reads 4.7 MB of vendor names at
 * each start, which takes 28 ms instead of 10. All processes of this user share the folder, so a killed one leaves
 * nothing to remove. If the folder cannot be created, or is deleted, calls are only slower.
 */
function createHome(): string {
  const home = privateFolder("ipmi");
  if (home === undefined) return NO_HOME;
  const lists = join(home, ".local", "usr", "share", "misc");
  const list = join(lists, "enterprise-numbers.txt");
  try {
    mkdirSync(lists, { recursive: true });
    if (!existsSync(list)) writeFileSync(list, "0\n  Reserved\n");
    return home;
  } catch {
    return NO_HOME;
  }
}

const NO_HOME = "/nonexistent";
