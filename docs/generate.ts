/**
 * `npm run docs`: prints the pages that follow from code. `--check` writes nothing and says which page is stale.
 * A page is a pure function of the tables it prints, so it is the same on every machine.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { VARIABLES } from "../src/config.ts";
import { ERROR_MEANING, ERROR_STATUS } from "../src/errors.ts";
import type { ErrorCode } from "../src/errors.ts";
import { CLUSTER_STATES, STAGES } from "../src/lifecycle/cluster-state.ts";
import { isAtRest } from "../src/lifecycle/machine.ts";
import { NODE_EDGES, NODE_EVENTS, NODE_STATES, NODE_STATE_NAMES, SELF_EVENTS } from "../src/lifecycle/node-states.ts";
import type { Edge, NodeEvent, NodeState, Phase } from "../src/lifecycle/node-states.ts";
import { FAILURE_POLICIES, OPERATION_STATES, RUN_STATES, UNFINISHED_OPERATION_STATES, UNFINISHED_RUN_STATES } from "../src/lifecycle/operation-states.ts";
import { NODE_VERBS, cleanUpRoute, route } from "../src/lifecycle/verbs.ts";
import type { OperationKind, Route, RouteOptions } from "../src/lifecycle/verbs.ts";

interface Page {
  readonly file: string;
  /** Where the page's contents stand, for whoever wants to change it. */
  readonly source: string;
  text(): string;
}

const PAGES: readonly Page[] = [
  { file: "lifecycle.md", source: "src/lifecycle", text: lifecyclePage },
  { file: "errors.md", source: "src/errors.ts", text: errorsPage },
  { file: "configuration.md", source: "src/config.ts", text: configurationPage },
];

// ---- Markdown

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

const code = (text: string) => `\`${text}\``;
const codes = (texts: readonly string[]) => texts.map(code).join(", ");
const paragraphs = (...parts: readonly string[]) => `${parts.join("\n\n")}\n`;
const meanings = (what: string, given: Readonly<Record<string, string>>) => table([what, "meaning"], Object.entries(given).map(([name, meaning]) => [code(name), meaning]));

/** Values of a list under the keys they share, both in the order they first come in. */
function grouped<T>(items: readonly T[], keyOf: (item: T) => string): readonly (readonly [T, ...T[]])[] {
  const groups = new Map<string, [T, ...T[]]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return [...groups.values()];
}

// ---- lifecycle.md

const PHASES: readonly Phase[] = ["verify", "inspect", "clean", "deploy", "undeploy"];
/** Events that take a node off its way; the first diagram leaves them out. */
const SETBACKS: ReadonlySet<NodeEvent> = new Set(["fail", "abort", "stop"]);
const MOVES = NODE_EDGES.filter(({ event }) => !SELF_EVENTS.has(event));

function lifecyclePage(): string {
  return paragraphs(
    "# The lifecycle of a node",
    "A node is in exactly one state. What may follow what is one table, `src/lifecycle/node-states.ts`; the database holds a copy and refuses every other change, and each change is a row of the log of transitions. States are at rest (**stable**, **failed**) or belong to a run under way: **running** (a step is being run), **wait** (parked until a time or a call-back; no process holds it), **hold** (paused by request).",
    "## The way of a node",
    "Phases are drawn as one box each, what goes wrong is left out.",
    mermaid(overview()),
    "## Inside each phase",
    ...PHASES.flatMap((phase) => [`### ${phase}`, mermaid(insideOf(phase))]),
    "## States",
    table(["state", "kind", "phase", "meaning"], NODE_STATE_NAMES.map((state) => [code(state), NODE_STATES[state].kind, NODE_STATES[state].phase ?? "–", NODE_STATES[state].description])),
    "## Events",
    meanings("event", NODE_EVENTS),
    "## Transitions",
    "“By verb” is what a user's request may cause; the rest only the engine causes. A node's registration (from nothing to `ENROLLED`) and its deletion are in the log as `register` and `delete`.",
    table(["from", "event", "to", "by"], MOVES.map(({ from, event, to, by }) => [code(from), event, code(to), by])),
    `Besides, \`recover\` leads from a state to itself: a process died, and the run that it held on the node was taken up again. In ${codes(NODE_EDGES.filter(({ event }) => event === "recover").map(({ from }) => from))}. \`abort_pending\` and \`abort_withdrawn\` leave a node where it is as well, in every state: somebody asked for an abort that has to wait for the end of a step, or took it back.`,
    "## Verbs",
    "What each verb does to a node, by the state that it is in. A state that is not listed is refused with `INVALID_STATE`, any state with an unfinished run with `BUSY`. Phases in brackets run in place: the state stays as it is meanwhile. An inspection in place needs a driver that inspects without a reboot.",
    verbTable(),
    "Where the failure policy says so, a node is cleaned up after its operation failed:",
    table(["from", "phases", "ends"], routeRows((state) => (isAtRest(state) ? cleanUpRoute(state) : null))),
    "## Stages",
    "How far a node has come, beside its state; a restart goes by it.",
    meanings("stage", STAGES),
    "## States of an operation",
    `Unfinished are ${codes(UNFINISHED_OPERATION_STATES)}; the others are final.`,
    meanings("state", OPERATION_STATES),
    "## States of a run",
    `A run is the share of an operation on one node. Unfinished are ${codes(UNFINISHED_RUN_STATES)}; the others are final. A node has at most one unfinished run.`,
    meanings("state", RUN_STATES),
    "## Failure policies",
    "What a failed node does to the others of its operation. A commission has `CLEAN_UP_ALL` unless told otherwise, every other verb `LEAVE`.",
    meanings("policy", FAILURE_POLICIES),
    "## States of a cluster",
    "Derived from its nodes and what works on them, never stored. The first that applies, from above; changes of power and inspections in place do not count as work.",
    meanings("state", CLUSTER_STATES),
  );
}

function mermaid(lines: readonly string[]): string {
  return ["```mermaid", "stateDiagram-v2", ...lines.map((line) => `    ${line}`), "```"].join("\n");
}

/** Arrows between two boxes, drawn once with all their events. */
function arrows(edges: readonly { readonly from: string; readonly event: string; readonly to: string }[]): readonly string[] {
  return grouped(edges, ({ from, to }) => `${from} ${to}`).map((group) => `${group[0].from} --> ${group[0].to} : ${[...new Set(group.map(({ event }) => event))].join(", ")}`);
}

/** A state, or the phase that stands for its running, waiting and holding states. */
function boxOf(state: NodeState): string {
  return isAtRest(state) ? state : (NODE_STATES[state].phase ?? state);
}

function overview(): readonly string[] {
  const shown = (state: NodeState) => NODE_STATES[state].kind !== "failed" && state !== "STOPPED";
  const edges = MOVES.filter(({ from, event, to }) => shown(from) && shown(to) && !SETBACKS.has(event) && boxOf(from) !== boxOf(to));
  return ["[*] --> ENROLLED : register", ...arrows(edges.map(({ from, event, to }) => ({ from: boxOf(from), event, to: boxOf(to) })))];
}

/** The phase's own states, and from where and to where its edges lead. */
function insideOf(phase: Phase): readonly string[] {
  const own = (state: NodeState) => NODE_STATES[state].phase === phase;
  const under = (state: NodeState) => own(state) && !isAtRest(state);
  const edges: readonly Edge[] = MOVES.filter(({ from, to }) => under(from) || under(to) || own(from));
  return arrows(edges);
}

interface VerbCase {
  readonly kind: OperationKind;
  readonly label: string;
  readonly options: RouteOptions;
}

/** Each verb as it may be asked; a case whose label is the kind alone is the ordinary one. */
function verbCases(): readonly VerbCase[] {
  const special: Partial<Record<OperationKind, readonly Omit<VerbCase, "kind">[]>> = {
    INSPECT: [{ label: "", options: { inspectsWithoutReboot: true } }],
    CLEAN: [
      { label: "automatic steps", options: {} },
      { label: "steps by name", options: { manualCleaning: true } },
    ],
    COMMISSION: [
      { label: "until ACTIVE", options: { until: "ACTIVE" } },
      { label: "until AVAILABLE", options: { until: "AVAILABLE" } },
    ],
  };
  return NODE_VERBS.flatMap((kind) => (special[kind] ?? [{ label: "", options: {} }]).map((one) => ({ kind, ...one })));
}

function verbTable(): string {
  const rows = verbCases().flatMap(({ kind, label, options }) =>
    routeRows((state) => route(kind, state, options)).map((cells) => [`${code(kind)}${label === "" ? "" : `, ${label}`}`, ...cells]),
  );
  return table(["verb", "from", "phases", "ends"], rows);
}

/** Rows of from, phases, end: states on the same way share one. */
function routeRows(routeOf: (state: NodeState) => Route | null): readonly (readonly string[])[] {
  const ways = NODE_STATE_NAMES.flatMap((state) => {
    const found = routeOf(state);
    if (!found) return [];
    const phases = found.legs.map(({ phase, enter }) => (enter.length === 0 ? `(${phase})` : phase)).join(" → ") || "none";
    return [{ state, phases, end: found.target === state && found.finish.length === 0 ? "where it was" : code(found.target) }];
  });
  return grouped(ways, ({ phases, end }) => `${phases} ${end}`).map((group) => [codes(group.map(({ state }) => state)), group[0].phases, group[0].end]);
}

// ---- errors.md

function errorsPage(): string {
  return paragraphs(
    "# Errors",
    "What is refused is data, not an exception: payloads carry `errors` (the request as a whole) and `results[].error` (one node), each with a `code`, a `status` like HTTP's, a `message` that says what happened, to which node, and what to do, and the `path` of the input it is about. A failed step, run or operation carries the same codes. Codes are permanent; new ones may come.",
    table(
      ["code", "status", "meaning"],
      (Object.entries(ERROR_STATUS) as [ErrorCode, number][]).map(([name, status]) => [code(name), String(status), meaningOf(name)]),
    ),
    "A request that is no valid GraphQL, presents no good token, or meets a fault of ours is answered in GraphQL's own `errors`, with `extensions.code`. Faults of ours are masked: `INTERNAL` with a request id, under which the log has the cause.",
  );
}

/** The meaning as the schema says it, less the status that it begins with. */
function meaningOf(name: ErrorCode): string {
  const text = ERROR_MEANING[name].replace(/^\d{3}: /, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// ---- configuration.md

function configurationPage(): string {
  return paragraphs(
    "# Configuration",
    "From the environment, or the same as flags (`npm start -- --port 4001`); a flag wins. Everything is checked before anything starts, and a variable that begins with `OSTLER_` and is not listed here is refused. The configuration is logged at the start, without its secrets.",
    table(
      ["variable", "flag", "default", "meaning"],
      Object.entries(VARIABLES).map(([name, { flag, fallback, help }]) => [code(name), code(`--${flag}`), fallback === "" ? "–" : code(fallback), help]),
    ),
    "`--demo` registers the demonstration fleet where there are no nodes yet. It has no variable.",
  );
}

// ---- writing and checking

function main(): void {
  const stale: string[] = [];
  for (const { file, source, text } of PAGES) {
    const url = new URL(file, import.meta.url);
    const printed = `<!-- Printed by \`npm run docs\` from ${source}. Change that, not this page. -->\n\n${text()}`;
    if (!process.argv.includes("--check")) writeFileSync(url, printed);
    else if (read(url) !== printed) stale.push(`docs/${file}`);
  }
  if (stale.length === 0) return;
  process.stderr.write(`${stale.join(", ")} ${stale.length === 1 ? "is" : "are"} not what the code prints; run \`npm run docs\` and commit.\n`);
  process.exitCode = 1;
}

function read(url: URL): string | null {
  try {
    return readFileSync(url, "utf8");
  } catch {
    return null;
  }
}

main();
