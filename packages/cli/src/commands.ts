/** All commands in one table. Help, completion, the printed docs and tests derive from it. */
import * as clusters from "./clusters.ts";
import type { Command, Flag, Flags } from "./command.ts";
import { BASH_COMPLETION } from "./completion.ts";
import { EXIT, usageError } from "./exit.ts";
import * as fleet from "./fleet.ts";
import * as groups from "./host-groups.ts";
import { INPUT_FIELDS } from "./requests.ts";
import type { Answers } from "./requests.ts";
import { explainNodes, getNodes, showNode, watchNodes } from "./nodes.ts";
import { getOperations, showLog } from "./operations.ts";
import * as own from "./own.ts";
import { readSelection, requireSelection, selectorOf } from "./selection.ts";
import { requireOperation } from "./session.ts";
import { safe } from "./text.ts";
import { choiceWord, extraVariables } from "./values.ts";
import { APPLY, INTERRUPTIONS, NODE_MARKS, NODE_VERBS, RESTART, WAVES, hasMember, inputFlags } from "./verbs.ts";
import type { Verb } from "./verbs.ts";
import { awaitOperations } from "./wait.ts";
import { changeNodes, changeWaves, inputOf, interruptWork, startWork, waitOptions, workSelector } from "./work.ts";

const SELECTION: readonly Flag[] = [
  { form: "--filter <text>", text: "nodes that match, such as 'state:failed -cluster:berlin'" },
  { form: "--cluster <name>", text: "nodes of a cluster" },
  { form: "--all", text: "all nodes" },
];
const WAIT: readonly Flag[] = [
  { form: "--wait", text: "wait for the end, and return its exit code" },
  { form: "--timeout <duration>", text: "with --wait: wait no longer, such as 30m; exit code 75" },
  { form: "--fail-fast", text: "with --wait: return at the first failure" },
];
const EXTRA: Flag = {
  form: "-e, --extra-vars <json>",
  text: "variables as JSON or @FILE; repeatable, merged in order",
  isRepeated: true,
};
const WAVE_FLAGS: readonly Flag[] = [
  { form: "--waves <sizes>", text: "sizes of waves, such as 1,10%,100%" },
  { form: "--max-failures <share>", text: "failed nodes after which waves halt, such as 5 or 5%" },
  { form: "--pause <duration>", text: "pause between waves, such as 60s" },
  { form: "--manual", text: "each wave waits for `operations advance`" },
];
const OF_GROUP: Flag = { form: "-g, --host-group <name>", text: "variables of this host group of the cluster" };
const IMAGE: Flag = { form: "--image <name>", text: "image to install" };
const LABELS: Flag = { form: "--set-label <k=v>", text: "label to set; repeatable", isRepeated: true };

/** Flags that every command takes. */
export const GLOBAL_FLAGS: readonly Flag[] = [
  { form: "--context <name>", text: "service of a context" },
  { form: "--server <url>", text: "address of the service" },
  { form: "--json", text: "print JSON, with the names of the schema" },
  { form: "-o, --output <form>", text: "table, names or json", words: ["table", "names", "json"] },
  { form: "--columns <names>", text: "columns of a table" },
  { form: "--no-headers", text: "no head of a table" },
  { form: "--sort <field>", text: "order of nodes: name, state, cluster, updated, created; -name for descending" },
  { form: "--color <when>", text: "auto, always or never", words: ["auto", "always", "never"] },
  { form: "--yes", text: "answer the question of a command that asks; needed without a terminal" },
  { form: "-v, --verbose", text: "print each request to stderr, without secrets" },
];

/** The flags of a verb: those of its input, and those of the groups of terms that its input has. */
function verbFlags(verb: Verb): Flag[] {
  const ofInput = inputFlags(verb).map(({ member, flag, field }): Flag => {
    const short = member === "hostGroup" ? "-g, " : "";
    const kind = field.values ? "choice" : field.type === "Int" ? "number" : "text";
    const isSwitch = field.type === "Boolean" && !NULLABLE_FLAGS.has(member);
    const words = field.values?.map(choiceWord) ?? (field.type === "Boolean" ? ["true", "false"] : undefined);
    return {
      form: `${short}${flag}${isSwitch ? "" : ` <${field.type === "Boolean" ? "boolean" : kind}>`}`,
      text: `${field.description}${field.values ? ` One of ${field.values.map(choiceWord).join(", ")}.` : ""}`,
      ...(words && !isSwitch && { words }),
    };
  });
  const has = (member: string) => hasMember(verb, member);
  const isBestEffort = BEST_EFFORT.has(verb.mutation);
  const startsWork = has("planHash");
  return [
    ...ofInput,
    ...(startsWork && !isBestEffort
      ? [{ form: "--best-effort", text: "start the accepted nodes if others are refused" }]
      : []),
    ...(has("acceptance") && isBestEffort ? [{ form: "--all-or-nothing", text: "refuse all if one is refused" }] : []),
    ...(startsWork ? [EXTRA, ...WAVE_FLAGS] : []),
    ...(INSTALLS.has(verb.mutation) ? [IMAGE] : []),
    ...(startsWork || verb.mutation === "abort" || verb.mutation === "stop" ? WAIT : []),
    ...(has("dryRun") || verb.mutation === "deleteNodes"
      ? [{ form: "--dry-run", text: "show what would be done" }]
      : []),
  ];
}

/** Verbs that leave refused nodes out by default. */
const BEST_EFFORT = new Set<keyof Answers>([
  "applyCluster",
  "restart",
  "abort",
  "stop",
  "withdrawAbort",
  "releaseHolds",
]);
const INSTALLS = new Set<keyof Answers>(["applyCluster", "commissionNodes", "deployNodes", "redeployNodes"]);
/** Booleans that have a value, because both values mean something else than none. */
const NULLABLE_FLAGS = new Set(["automaticCleaning", "diskless", "protected", "sharedController", "powerOff"]);

function argumentOf(verb: Verb): { readonly args: readonly string[]; readonly words?: readonly string[] } {
  if (verb.argument === undefined) return { args: [] };
  const words = INPUT_FIELDS[verb.mutation]?.[verb.argument]?.values?.map(choiceWord) ?? [];
  return { args: [`<${verb.argument}>`], words };
}

/** The nodes of a command that may also be for none. */
function nodesOf(names: readonly string[], flags: Flags): { readonly nodes?: object } {
  const selection = readSelection(names, flags);
  return selection ? { nodes: selectorOf(selection) } : {};
}

const nodeVerbs = NODE_VERBS.map((verb): Command => ({
  path: `nodes ${verb.word}`,
  ...argumentOf(verb),
  args: [...argumentOf(verb).args, "[nodes...]"],
  summary: verb.summary,
  example: `nodes ${verb.example}`,
  flags: [...SELECTION, ...verbFlags(verb)],
  async run(session, args, flags) {
    const names = verb.argument === undefined ? args : args.slice(1);
    const input = inputOf(verb, flags, args[0]);
    const nodes = selectorOf(requireSelection(readSelection(names, flags)));
    return startWork(session, verb, { ...input, nodes }, flags);
  },
}));

const plans = nodeVerbs.map((command): Command => ({
  ...command,
  path: command.path.replace(/^nodes/, "plan"),
  summary: `Show what \`${command.path}\` would do, and its hash.`,
  example: command.example.replace(/^nodes/, "plan").replace(" --wait", ""),
  run: (session, args, flags) => command.run(session, args, { ...flags, dryRun: true }),
}));

const marks = NODE_MARKS.map((verb): Command => ({
  path: `nodes ${verb.word}`,
  args: ["[nodes...]"],
  summary: verb.summary,
  example: `nodes ${verb.example}`,
  flags: [
    ...SELECTION,
    ...(verb.word === "edit"
      ? [LABELS, { form: "--remove-label <key>", text: "label to remove; repeatable", isRepeated: true }]
      : []),
    ...verbFlags(verb),
  ],
  async run(session, args, flags) {
    const { setLabel, removeLabel } = flags as { setLabel?: readonly string[]; removeLabel?: readonly string[] };
    const input = {
      ...inputOf(verb, flags),
      ...(setLabel && { setLabels: fleet.labelsOf(setLabel) }),
      ...(removeLabel && { removeLabels: removeLabel }),
    };
    const selection = requireSelection(readSelection(args, flags));
    if (verb.word === "edit" && Object.keys(input).length === 0)
      throw usageError("The command changes nothing. Example: --set-label rack=r12");
    return changeNodes(session, verb, { selection, input }, flags);
  },
}));

const interruptions = [...INTERRUPTIONS, RESTART].map((verb): Command => ({
  path: `operations ${verb.word}`,
  args: ["[operation-or-nodes...]"],
  summary: verb.summary,
  example: `operations ${verb.example}`,
  flags: [...SELECTION, ...verbFlags(verb)],
  async run(session, args, flags) {
    const input = inputOf(verb, flags);
    const selection = requireSelection(readSelection(args, flags), "an operation by its ID, or ");
    const request = { ...input, work: await workSelector(session, args, selection) };
    return verb.mutation === "restart"
      ? startWork(session, RESTART, request, flags)
      : interruptWork(session, verb, request, flags);
  },
}));

const waves = WAVES.map((verb): Command => ({
  path: `operations ${verb.word}`,
  args: ["<operation>"],
  summary: verb.summary,
  example: `operations ${verb.example}`,
  flags: verbFlags(verb),
  async run(session, [id = ""], flags) {
    const operationId = await requireOperation(session, id);
    return changeWaves(session, verb, { ...inputOf(verb, flags), operationId }, flags);
  },
}));

export const COMMANDS: readonly Command[] = [
  {
    path: "nodes get",
    args: ["[nodes...]"],
    summary: "List nodes.",
    example: "nodes get --filter 'state:failed'",
    flags: SELECTION,
    run: (session, args, flags) => getNodes(session, readSelection(args, flags)),
  },
  {
    path: "nodes show",
    args: ["<node>"],
    summary: "Show one node.",
    example: "nodes show u07",
    run: (session, [name = ""]) => showNode(session, name),
  },
  {
    path: "nodes why",
    args: ["[nodes...]"],
    summary: "Show what nodes wait for, why they failed, and what is allowed next.",
    example: "nodes why --filter 'state:failed'",
    flags: SELECTION,
    run: (session, args, flags) => explainNodes(session, readSelection(args, flags)),
  },
  {
    path: "nodes watch",
    args: ["[nodes...]"],
    summary: "Show states, then each change.",
    example: "nodes watch --cluster berlin",
    flags: SELECTION,
    run: (session, args, flags) => watchNodes(session, readSelection(args, flags, { stream: true })),
  },
  {
    path: "nodes register",
    args: ["<file>"],
    summary: "Register the nodes of a file with the input of `registerNodes`, as JSON; - for standard input.",
    example: `nodes register - <<< '{"nodes": [{"name": "u07", "driver": {"redfish": {"address": "10.0.0.7"}}}]}'`,
    run: (session, [file = ""]) => fleet.registerNodes(session, file),
  },
  ...nodeVerbs,
  ...marks,
  {
    path: "operations get",
    args: ["[operation]"],
    summary: "List the newest operations, or show one.",
    example: "operations get --active",
    flags: [
      { form: "--active", text: "only unfinished ones" },
      { form: "--last", text: "only the newest one" },
    ],
    run: (session, [id], flags) => getOperations(session, id, flags),
  },
  {
    path: "operations watch",
    args: ["<operation>"],
    summary: "Follow an operation to its end, and return its exit code.",
    example: "operations watch 24485d43",
    flags: WAIT.slice(1),
    run: async (session, [id = ""], flags) =>
      awaitOperations(session, [await requireOperation(session, id)], waitOptions(flags)),
  },
  {
    path: "operations log",
    args: ["<operation>", "<node>"],
    summary: "Print the log of a node in an operation.",
    example: "operations log 24485d43 u07 -f",
    flags: [{ form: "-f, --follow", text: "follow it until the work on the node ends" }],
    run: (session, [operation = "", node = ""], flags) =>
      showLog(session, { operation, node, isFollowed: "follow" in flags }),
  },
  ...interruptions,
  ...waves,
  {
    path: "clusters get",
    args: ["[cluster]"],
    summary: "List clusters, or show one.",
    example: "clusters get berlin",
    run: (session, [name]) => clusters.getClusters(session, name),
  },
  {
    path: "clusters create",
    args: ["<cluster>", "[nodes...]"],
    summary: "Create a cluster.",
    example: "clusters create berlin rack1-u[01-20]",
    flags: [SELECTION[0] as Flag, EXTRA, IMAGE],
    run: (session, [name = "", ...names], flags) =>
      clusters.createCluster(session, name, {
        ...nodesOf(names, flags),
        ...(flags.extraVars && { variables: extraVariables(flags.extraVars) }),
        ...(flags.image !== undefined && { image: { name: flags.image } }),
      }),
  },
  {
    path: "clusters edit",
    args: ["<cluster>"],
    summary: "Change its image or name.",
    example: "clusters edit berlin --image debian-13",
    flags: [
      { form: "--image <name>", text: "image that its nodes should have, or none", words: ["none"] },
      { form: "--name <name>", text: "new name" },
    ],
    run: (session, [cluster = ""], { image, name }) =>
      clusters.changeCluster(session, cluster, {
        ...(image !== undefined && { image: image === "none" ? null : { name: image } }),
        ...(name !== undefined && { name }),
      }),
  },
  ...(["add", "remove"] as const).map((word): Command => ({
    path: `clusters ${word}`,
    args: ["<cluster>", "[nodes...]"],
    summary: word === "add" ? "Add nodes to a cluster." : "Remove nodes from a cluster.",
    example: `clusters ${word} berlin u07 u08`,
    flags: [SELECTION[0] as Flag],
    run: (session, [name = "", ...names], flags) =>
      clusters.changeCluster(session, name, { [word]: selectorOf(requireSelection(readSelection(names, flags))) }),
  })),
  {
    path: `clusters ${APPLY.word}`,
    args: ["<cluster>", "[nodes...]"],
    summary: APPLY.summary,
    example: `clusters ${APPLY.example}`,
    flags: [SELECTION[0] as Flag, ...verbFlags(APPLY)],
    run(session, [name = "", ...names], flags) {
      const input = { ...inputOf(APPLY, flags), cluster: { name }, ...nodesOf(names, flags) };
      return startWork(session, APPLY, input, flags);
    },
  },
  {
    path: "clusters delete",
    args: ["<cluster>"],
    summary: "Delete a cluster; its nodes stay.",
    example: "clusters delete berlin",
    run: (session, [name = ""], flags) => clusters.deleteCluster(session, name, flags),
  },
  {
    path: "clusters vars get",
    args: ["<cluster>"],
    summary: "Print the variables of a cluster, or of a host group.",
    example: "clusters vars get berlin -g workers",
    flags: [OF_GROUP],
    run: (session, [name = ""], { hostGroup }) => clusters.getVariables(session, name, hostGroup),
  },
  ...(["set", "unset"] as const).map((word): Command => ({
    path: `clusters vars ${word}`,
    args: ["<cluster>", word === "set" ? "<name=value...>" : "<name...>"],
    summary: word === "set" ? "Set variables. A value is JSON, or else a text." : "Remove variables.",
    example: `clusters vars ${word} berlin ${word === "set" ? "ntp=10.0.0.2" : "ntp"}`,
    flags: [OF_GROUP],
    run: (session, [name = "", ...words], { hostGroup: group }) =>
      clusters.changeVariables(session, name, { words, isSet: word === "set", group }),
  })),
  {
    path: "clusters groups get",
    args: ["<cluster>"],
    summary: "List host groups in the order of their deployment.",
    example: "clusters groups get berlin",
    run: (session, [name = ""]) => groups.getGroups(session, name),
  },
  {
    path: "clusters groups set",
    args: ["<cluster>", "<group...>"],
    summary: "Change rules of host groups, or add them. Other rules stay.",
    example: "clusters groups set berlin workers --after masters --tolerates 2%",
    flags: [
      {
        form: "--after <group>",
        text: "group that is deployed before: all its nodes, or a share such as masters=1 or masters=50%; repeatable; none: no group",
        isRepeated: true,
      },
      { form: "--tolerates <share>", text: "nodes that may fail, such as 1 or 2%, or none: no limit", words: ["none"] },
      { form: "--min-active <share>", text: "nodes that stay in service, or none: no minimum", words: ["none"] },
    ],
    run: (session, [name = "", ...names], flags) => groups.setGroups(session, name, { names, flags }),
  },
  {
    path: "clusters groups unset",
    args: ["<cluster>", "<group...>"],
    summary: "Remove the rules and variables of host groups; their nodes stay.",
    example: "clusters groups unset berlin workers",
    run: (session, [name = "", ...names]) => groups.unsetGroups(session, name, names),
  },
  {
    path: "discover",
    args: ["<address...>"],
    summary: "Find machines at addresses of BMCs, and register them.",
    example: "discover 10.0.0.7 10.0.0.8 --driver redfish --set username=admin --secret password",
    flags: [
      { form: "--driver <name>", text: "driver of the BMCs" },
      { form: "--set <name=value>", text: "setting of the driver; repeatable", isRepeated: true },
      {
        form: "--secret <name>",
        text: "setting to ask for without echo, or to read from standard input",
        isRepeated: true,
      },
      { form: "--cluster <name>", text: "cluster of the nodes found" },
      { form: "--name-prefix <text>", text: "beginning of their names" },
      LABELS,
      { form: "--reason <text>", text: "reason, for the log" },
      { form: "--idempotency-key <text>", text: "key of the request" },
      { form: "--dry-run", text: "only check the request" },
      ...WAIT,
    ],
    run: (session, addresses, flags) => fleet.discover(session, addresses, flags),
  },
  {
    path: "site get",
    summary: "Show the policy of the site.",
    example: "site get",
    run: (session) => fleet.getSite(session),
  },
  {
    path: "site set",
    args: ["<field=value...>"],
    summary: "Change the policy of the site. A value is JSON, or else a text.",
    example: "site set commissionOnFailure=LEAVE",
    run: (session, values) => fleet.setSite(session, values),
  },
  ...plans,
  {
    path: "query",
    args: ["<file>"],
    summary: "Send a GraphQL document of a file, or - for standard input; follow a subscription.",
    example: "query fleet.graphql --var name=u07",
    flags: [{ form: "--var <name=json>", text: "variable; repeatable", isRepeated: true }],
    run: (session, [file = ""], flags) => own.query(session, file, (flags as { var?: readonly string[] }).var ?? []),
  },
  {
    path: "context list",
    summary: "List the known services.",
    example: "context list",
    run: (session) => own.listContexts(session),
  },
  {
    path: "context add",
    args: ["<name>"],
    summary: "Add a service, with --server.",
    example: "context add lab --server https://ostler.lab:4000",
    flags: [
      { form: "--token-file <file>", text: "file with the token" },
      { form: "--token-command <command>", text: "shell command that prints the token" },
    ],
    run: (_session, [name = ""], flags) => own.addContext(name, flags),
  },
  ...(["use", "remove"] as const).map((word): Command => ({
    path: `context ${word}`,
    args: ["<name>"],
    summary: word === "use" ? "Choose the service of later commands." : "Remove a service and its token.",
    example: `context ${word} lab`,
    run: (_session, [name = ""]) => (word === "use" ? own.useContext(name) : own.removeContext(name)),
  })),
  {
    path: "context show",
    summary: "Show the service and the user of commands.",
    example: "context show",
    run: (session) => own.showContext(session),
  },
  {
    path: "login",
    summary: "Read a token without echo, check it, and store it.",
    example: "login --server https://ostler.lab:4000",
    run: (session, _args, flags) => own.login(session, flags),
  },
  {
    path: "completion",
    args: ["<shell>"],
    summary: "Print the completion of bash.",
    example: "completion bash > ~/.local/share/bash-completion/completions/ostler",
    words: ["bash"],
    run(_session, [shell = ""]) {
      if (shell !== "bash") throw usageError(`Completion of ${safe(shell)} is not supported. Use bash.`);
      process.stdout.write(BASH_COMPLETION);
      return EXIT.done;
    },
  },
];
