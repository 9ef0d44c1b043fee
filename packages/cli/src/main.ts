/** The command line `ostler`: builds its commands of the table, runs one, and returns the exit code. */
import { Command as Commander, CommanderError } from "commander";
import { completions } from "./completion.ts";
import { COMMANDS, GLOBAL_FLAGS } from "./commands.ts";
import type { Command, Flag, Flags } from "./command.ts";
import { setOwnService } from "./contexts.ts";
import { CliError, EXIT, messageOf } from "./exit.ts";
import { installInterrupt, openSession, warn } from "./session.ts";
import { OTHER_WORDS, SAME_WORDS } from "./verbs.ts";

const GROUPS: Readonly<Record<string, string>> = {
  nodes: "list, watch, change and work on nodes",
  operations: "list, follow, stop, abort and restart work",
  clusters: "clusters, their host groups and variables",
  "clusters vars": "variables of a cluster and of its host groups",
  "clusters groups": "order, tolerance and minimum in service of host groups",
  site: "the policy of the site",
  plan: "show what a verb would do",
  context: "known services",
};

/**
 * Runs a command, and ends the process with its exit code. `own`: the service on this host, if the environment has its
 * settings; null: at the usual address.
 */
export async function runCli(args: readonly string[], own?: string | null): Promise<void> {
  if (own !== undefined) setOwnService(own);
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    // A reader such as `head` has what it wanted.
    if (error.code === "EPIPE") process.exit(EXIT.done);
    process.stderr.write(`The output cannot be written: ${error.message}\n`);
    process.exit(EXIT.failed);
  });
  process.stderr.on("error", () => {});
  installInterrupt();
  const code = await exitCodeOf(args);
  // Flushes both before the end: pipes are written in the background.
  process.stderr.write("", () => process.stdout.write("", () => process.exit(code)));
}

async function exitCodeOf(args: readonly string[]): Promise<number> {
  if (args[0] === "__complete") {
    const words = await completions(COMMANDS, GLOBAL_FLAGS, args.slice(1));
    process.stdout.write(words.map((word) => `${word}\n`).join(""));
    return EXIT.done;
  }
  const other = otherWords(args);
  if (other !== null) {
    warn(other);
    return EXIT.usage;
  }
  let code: number = EXIT.done;
  try {
    await programOf(args, (found) => {
      code = found;
    }).parseAsync([...args], { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    warn(messageOf(error));
    return error instanceof CliError ? error.exitCode : EXIT.failed;
  }
}

/** The hint for a command of another program; null if the words are not known from one. */
function otherWords([first = "", second = ""]: readonly string[]): string | null {
  const given = `${first} ${second}`.trim();
  if (Object.hasOwn(OTHER_WORDS, given)) return OTHER_WORDS[given] ?? null;
  const [one, two] = [first, second].map((word) => (Object.hasOwn(SAME_WORDS, word) ? SAME_WORDS[word] : word));
  const meant = [`${one} ${two}`, `${two} ${one}`, `${two}s ${one}`].find((words) =>
    COMMANDS.some(({ path }) => path === words),
  );
  return meant === undefined || meant === given
    ? null
    : `The command \`${given}\` does not exist. Use \`ostler ${meant}\`.`;
}

/** Only the group of the command is whole, and only the command itself has its flags: the others cost time. */
function programOf(args: readonly string[], finish: (code: number) => void): Commander {
  const program = new Commander("ostler").description("Operate a fleet of bare-metal machines.");
  const groups = new Map<string, Commander>([["", configured(program)]]);
  const groupOf = (path: string): Commander => {
    const known = groups.get(path);
    if (known) return known;
    const [above, word] = split(path);
    const group = configured(groupOf(above).command(word)).description(GROUPS[path] ?? "");
    groups.set(path, group);
    return group;
  };
  const isOfGroup = ({ path }: Command) => path.split(" ")[0] === args[0];
  for (const command of COMMANDS.some(isOfGroup) ? COMMANDS.filter(isOfGroup) : COMMANDS) {
    const one = addCommand(groupOf(split(command.path)[0]), command);
    if (`${args.join(" ")} `.startsWith(`${command.path} `)) addAction(one, command, finish);
  }
  return program;
}

function addCommand(group: Commander, command: Command): Commander {
  const one = configured(group.command(split(command.path)[1])).description(command.summary);
  for (const argument of command.args ?? []) one.argument(argument);
  return one;
}

function addAction(one: Commander, command: Command, finish: (code: number) => void): void {
  one.addHelpText("after", `\nExample:\n  ostler ${command.example}`);
  for (const flag of command.flags ?? []) addFlag(one, flag);
  one.optionsGroup("Flags of all commands:");
  for (const flag of GLOBAL_FLAGS) addFlag(one, flag);
  one.action(async (...given: readonly unknown[]) => {
    const args = given
      .slice(0, command.args?.length ?? 0)
      .flat()
      .filter((word) => typeof word === "string");
    const flags = one.opts<Flags>();
    finish(await command.run(openSession(flags), args, flags));
  });
}

function addFlag(one: Commander, { form, text, isRepeated }: Flag): void {
  if (isRepeated)
    one.option(form, text, (value: string, before: readonly string[] | undefined) => [...(before ?? []), value]);
  else one.option(form, text);
}

function configured(command: Commander): Commander {
  return command
    .exitOverride()
    .configureOutput({ writeErr: (text) => warn(text.trimEnd()) })
    .showHelpAfterError("Add --help for the flags and an example.")
    .helpOption("-h, --help", "show this help")
    .helpCommand(false);
}

function split(path: string): readonly [string, string] {
  const at = path.lastIndexOf(" ");
  return at < 0 ? ["", path] : [path.slice(0, at), path.slice(at + 1)];
}
