/**
 * The verbs: commands that send one mutation for selected nodes or work. Help, completion, docs and tests derive from
 * this table, and their flags from the members of the mutation's input.
 */
import { INPUT_FIELDS } from "./requests.ts";
import type { Answers, InputField } from "./requests.ts";
import { choiceWord } from "./values.ts";

/** Mutations that start work on nodes. */
export type NodeVerb =
  | "manageNodes"
  | "inspectNodes"
  | "provideNodes"
  | "cleanNodes"
  | "commissionNodes"
  | "deployNodes"
  | "redeployNodes"
  | "undeployNodes"
  | "decommissionNodes"
  | "setPower"
  | "setBootDevice";
type Mark = "setMaintenance" | "clearMaintenance" | "setRetired" | "clearRetired" | "updateNodes" | "deleteNodes";
type Interruption = "abort" | "stop" | "withdrawAbort" | "releaseHolds";
type Waves = "haltWaves" | "resumeWaves" | "advanceWaves";

export interface Verb<Mutation extends keyof Answers = keyof Answers> {
  readonly word: string;
  readonly mutation: Mutation;
  readonly summary: string;
  readonly example: string;
  /** A member of the input that is an argument. */
  readonly argument?: string;
  /** Whether it always asks: it changes power or ends work. Others ask if their plan touches disks or firmware. */
  readonly asks?: true;
  /** Members that the word implies. */
  readonly input?: Readonly<Record<string, unknown>>;
  /** Members without which it is refused. */
  readonly needs?: readonly string[];
}

export const NODE_VERBS: readonly Verb<NodeVerb>[] = [
  {
    word: "manage",
    mutation: "manageNodes",
    summary: "Verify credentials and power.",
    example: "manage rack1-u[01-20]",
  },
  { word: "inspect", mutation: "inspectNodes", summary: "Collect the inventory.", example: "inspect --cluster berlin" },
  { word: "provide", mutation: "provideNodes", summary: "Clean, and make available.", example: "provide u07 u08" },
  { word: "clean", mutation: "cleanNodes", summary: "Run clean steps.", example: "clean u07 --runbook firmware" },
  {
    word: "commission",
    mutation: "commissionNodes",
    summary: "Verify, inspect, clean and deploy: whatever is missing.",
    example: "commission --cluster berlin --wait",
  },
  {
    word: "deploy",
    mutation: "deployNodes",
    summary: "Install the system.",
    example: "deploy 'rack[1-4]-u[01-20]' --image debian-13 --waves 1,10%,100% --wait",
  },
  {
    word: "redeploy",
    mutation: "redeployNodes",
    summary: "Remove the workload, clean, and install again.",
    example: "redeploy u07 --reinstall -g service-worker",
    asks: true,
  },
  { word: "undeploy", mutation: "undeployNodes", summary: "Remove the workload.", example: "undeploy u07", asks: true },
  {
    word: "decommission",
    mutation: "decommissionNodes",
    summary: "Take out of service.",
    example: "decommission --filter 'is:retired'",
    asks: true,
  },
  {
    word: "power",
    mutation: "setPower",
    summary: "Change the power.",
    example: "power soft-off u07",
    argument: "action",
    asks: true,
  },
  {
    word: "boot-device",
    mutation: "setBootDevice",
    summary: "Set the device of the next start.",
    example: "boot-device network u07",
    argument: "device",
  },
];

export const NODE_MARKS: readonly Verb<Mark>[] = [
  {
    word: "edit",
    mutation: "updateNodes",
    summary: "Change labels, host group and other fields.",
    example: "edit u07 --set-label rack=r12 --host-group worker",
  },
  {
    word: "set-maintenance",
    mutation: "setMaintenance",
    summary: "Refuse work from now on.",
    example: "set-maintenance u07 --reason 'fan is loud'",
    needs: ["reason"],
  },
  {
    word: "clear-maintenance",
    mutation: "clearMaintenance",
    summary: "Allow work again.",
    example: "clear-maintenance u07",
  },
  {
    word: "set-retired",
    mutation: "setRetired",
    summary: "Mark as retired.",
    example: "set-retired u07 --reason 'out of warranty'",
    needs: ["reason"],
  },
  { word: "clear-retired", mutation: "clearRetired", summary: "End the retirement.", example: "clear-retired u07" },
  {
    word: "protect",
    mutation: "updateNodes",
    summary: "Refuse what erases or ends workloads.",
    example: "protect --cluster berlin",
    input: { protected: true },
  },
  {
    word: "unprotect",
    mutation: "updateNodes",
    summary: "End the protection.",
    example: "unprotect u07",
    input: { protected: false },
  },
  { word: "delete", mutation: "deleteNodes", summary: "Delete from the service.", example: "delete u07", asks: true },
];

export const RESTART: Verb<"restart"> = {
  word: "restart",
  mutation: "restart",
  summary: "Continue stopped, failed or aborted work.",
  example: "restart 24485d43 --wait",
};

export const APPLY: Verb<"applyCluster"> = {
  word: "apply",
  mutation: "applyCluster",
  summary: "Bring nodes to what their cluster wants now.",
  example: "apply berlin --wait",
  asks: true,
};

export const INTERRUPTIONS: readonly Verb<Interruption>[] = [
  { word: "abort", mutation: "abort", summary: "Give work up, at once.", example: "abort 24485d43", asks: true },
  {
    word: "stop",
    mutation: "stop",
    summary: "Finish the running steps; go on later.",
    example: "stop --cluster berlin",
  },
  {
    word: "withdraw-abort",
    mutation: "withdrawAbort",
    summary: "Take back a pending abort.",
    example: "withdraw-abort u07",
  },
  { word: "release-holds", mutation: "releaseHolds", summary: "Continue work on hold.", example: "release-holds u07" },
];

export const WAVES: readonly Verb<Waves>[] = [
  { word: "halt", mutation: "haltWaves", summary: "Start no further nodes.", example: "halt 24485d43" },
  { word: "resume", mutation: "resumeWaves", summary: "Continue halted waves.", example: "resume 24485d43" },
  { word: "advance", mutation: "advanceWaves", summary: "Start the next wave now.", example: "advance 24485d43" },
];

/** Words of other programs, and what stands for them here. */
export const OTHER_WORDS: Readonly<Record<string, string>> = {
  "nodes maintenance":
    "To upgrade nodes use `ostler nodes redeploy`; to refuse work on them use `ostler nodes set-maintenance`.",
  "nodes update":
    "To upgrade nodes use `ostler nodes redeploy`; to change labels and other fields use `ostler nodes edit`.",
};

/** Words of kubectl and of shells. */
export const SAME_WORDS: Readonly<Record<string, string>> = {
  node: "nodes",
  cluster: "clusters",
  operation: "operations",
  list: "get",
  ls: "get",
  describe: "show",
  rm: "delete",
  logs: "log",
};

const OTHER_COMMANDS: Readonly<Record<string, string>> = {
  applyCluster: "clusters apply",
  updateCluster: "clusters edit",
  updateSite: "site set",
  registerNodes: "nodes register",
  discoverNodes: "discover",
};

/** The command that sends a mutation, or its name if none does. */
export function commandOf(mutation: string): string {
  const nodes = [...NODE_VERBS, ...NODE_MARKS].find((verb) => verb.mutation === mutation);
  const work = [...INTERRUPTIONS, RESTART, ...WAVES].find((verb) => verb.mutation === mutation);
  const other = Object.hasOwn(OTHER_COMMANDS, mutation) ? OTHER_COMMANDS[mutation] : undefined;
  const words = nodes ? `nodes ${nodes.word}` : work ? `operations ${work.word}` : other;
  return words === undefined ? mutation : `ostler ${words}`;
}

/** A sentence of the service in words of this program: it names mutations, and members of their inputs. */
export function commandWords(sentence: string): string {
  return sentence
    .replaceAll(
      /`?\b(force|reinstall|mode|from|unknownVariables): (true|[A-Z_]+)\b`?/g,
      (_, member: string, value: string) => `--${kebab(member)}${value === "true" ? "" : ` ${choiceWord(value)}`}`,
    )
    .replaceAll(/`?\b[a-z]+[A-Z]\w*\b`?/g, (word) => {
      const name = word.replaceAll("`", "");
      const command = commandOf(name);
      return command === name ? word : `\`${command}\``;
    });
}

export interface InputFlag {
  readonly member: string;
  /** As in `--max-parallel`. */
  readonly flag: string;
  readonly field: InputField;
}

/** Members of inputs that have flags of another form, or that no flag may set. */
const OTHER_FLAGS = new Set([
  "acceptance",
  "dryRun",
  "name",
  "description",
  "expectedCount",
  "operationId",
  "userData",
  "ifRevision",
]);

/** The flags of a verb that are named after members of its input. */
export function inputFlags({ mutation, argument, input = {} }: Verb): readonly InputFlag[] {
  if (Object.keys(input).length > 0) return [];
  return Object.entries(INPUT_FIELDS[mutation] ?? {})
    .filter(([member]) => !OTHER_FLAGS.has(member) && member !== argument)
    .map(([member, field]) => ({ member, field, flag: `--${field.isOn ? "no-" : ""}${kebab(member)}` }));
}

export function hasMember({ mutation }: Verb, member: string): boolean {
  return Object.hasOwn(INPUT_FIELDS[mutation] ?? {}, member);
}

function kebab(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
