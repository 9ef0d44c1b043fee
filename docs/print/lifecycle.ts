/** docs/lifecycle.md: every state of nodes, operations, runs, waves and clusters, and what leads from one to another. */
import { CLUSTER_RULES, CLUSTER_STATES, STAGES } from "../../src/lifecycle/cluster-state.ts";
import { isAtRest } from "../../src/lifecycle/machine.ts";
import {
  NODE_EDGES,
  NODE_EVENTS,
  NODE_STATES,
  NODE_STATE_NAMES,
  SELF_EVENTS,
} from "../../src/lifecycle/node-states.ts";
import type { Edge, NodeEvent, NodeState, Phase } from "../../src/lifecycle/node-states.ts";
import {
  FAILURE_POLICIES,
  OPERATION_STATES,
  RUN_STATES,
  UNFINISHED_OPERATION_STATES,
  UNFINISHED_RUN_STATES,
} from "../../src/lifecycle/operation-states.ts";
import { cleanUpRoute } from "../../src/lifecycle/verbs.ts";
import { WAIT_REASONS } from "../../src/lifecycle/waiting.ts";
import { WAVE_STATES, judgeWaves } from "../../src/lifecycle/waves.ts";
import type { WaveFacts, WaveState, WaveVerdict } from "../../src/lifecycle/waves.ts";
import { clusterMoves } from "./cluster-moves.ts";
import { arrows, code, codes, fence, grouped, meanings, paragraphs, stateDiagram, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";
import { routeRows, verbTable } from "./ways.ts";

export const LIFECYCLE_PAGE: Page = { file: "lifecycle.md", source: "src/lifecycle", text: lifecyclePage };

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
    stateDiagram(overview()),
    "## Inside each phase",
    ...PHASES.flatMap((phase) => [`### ${phase}`, stateDiagram(insideOf(phase))]),
    "## States",
    table(
      ["state", "kind", "phase", "meaning"],
      NODE_STATE_NAMES.map((state) => [
        code(state),
        NODE_STATES[state].kind,
        NODE_STATES[state].phase ?? "–",
        NODE_STATES[state].description,
      ]),
    ),
    "## Events",
    meanings("event", NODE_EVENTS),
    "## Transitions",
    "“By verb” is what a user's request may cause; the rest only the engine causes. A node's registration (from nothing to `ENROLLED`) and its deletion are in the log as `register` and `delete`.",
    table(
      ["from", "event", "to", "by"],
      MOVES.map(({ from, event, to, by }) => [code(from), event, code(to), by]),
    ),
    `Besides, \`recover\` leads from a state to itself: a process died, hung or was told to end, and the run that it held on the node was taken up again in the middle of a step. In ${codes(NODE_EDGES.filter(({ event }) => event === "recover").map(({ from }) => from))}. \`abort_pending\` and \`abort_withdrawn\` leave a node where it is as well, in every state: somebody asked for an abort that has to wait for the end of a step, or took it back.`,
    "## Verbs",
    "What each verb does to a node, by the state that it is in. A state that is not listed is refused with `INVALID_STATE`, any state with an unfinished run with `BUSY`. Phases in brackets run in place: the state stays as it is meanwhile. An inspection in place needs a driver that inspects without a reboot.",
    verbTable(),
    "Where the failure policy says so, a node is cleaned up after its operation failed:",
    table(
      ["from", "phases", "ends"],
      routeRows((state) => (isAtRest(state) ? cleanUpRoute(state) : null)),
    ),
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
    "## Waves",
    "An operation that takes its nodes on in waves has one of these states besides, as long as it is unfinished. How far it is, and who may move it: [advanceWaves](verbs/advanceWaves.md).",
    stateDiagram(waveMoves()),
    meanings("state", WAVE_STATES),
    "## What a run waits for",
    "A run that is queued, waits or holds tells what for: `run { waiting { reason until description } }`.",
    meanings("reason", WAIT_REASONS),
    "## States of a cluster",
    "Derived from its nodes and what works on them, never stored; the table is `src/lifecycle/cluster-state.ts`. The first question that is answered yes decides. Changes of power and inspections in place do not count as work. A dry run changes nothing.",
    clusterDecision(),
    meanings("state", CLUSTER_STATES),
    "How a cluster moves, as one operation after another works on it: `done` on all of its nodes, `stopped` on some, or `failed` on some, be it that they failed or were aborted. Nodes that an operation does not concern stay what they are; so a cluster of which one node had failed before is not operational when all is done on the others.",
    stateDiagram(clusterArrows()),
  );
}

/** A state, or the phase that stands for its running, waiting and holding states. */
function boxOf(state: NodeState): string {
  return isAtRest(state) ? state : (NODE_STATES[state].phase ?? state);
}

function overview(): readonly string[] {
  const shown = (state: NodeState) => NODE_STATES[state].kind !== "failed" && state !== "STOPPED";
  const edges = MOVES.filter(
    ({ from, event, to }) => shown(from) && shown(to) && !SETBACKS.has(event) && boxOf(from) !== boxOf(to),
  );
  return [
    "[*] --> ENROLLED : register",
    ...arrows(edges.map(({ from, event, to }) => ({ from: boxOf(from), event, to: boxOf(to) }))),
  ];
}

/** The phase's own states, and from where and to where its edges lead. */
function insideOf(phase: Phase): readonly string[] {
  const own = (state: NodeState) => NODE_STATES[state].phase === phase;
  const under = (state: NodeState) => own(state) && !isAtRest(state);
  const edges: readonly Edge[] = MOVES.filter(({ from, to }) => under(from) || under(to) || own(from));
  return arrows(edges);
}

// ---- clusters

/** The table of rules as a chain of questions; the last row is what is left. */
function clusterDecision(): string {
  const lines = CLUSTER_RULES.slice(0, -1).flatMap(({ state, when }, index) => {
    const following = index + 2 < CLUSTER_RULES.length ? `question${index + 1}` : `answer${index + 1}`;
    return [
      `question${index}{"${capital(when)}"}`,
      `question${index} -- yes --> answer${index}[${state}]`,
      `question${index} -- no --> ${following}`,
    ];
  });
  const last = CLUSTER_RULES.length - 1;
  return fence(
    "mermaid",
    [
      "flowchart TD",
      ...[...lines, `answer${last}[${CLUSTER_RULES[last]?.state ?? ""}]`].map((line) => `    ${line}`),
    ].join("\n"),
  );
}

/** Moves between states of a cluster. What leads from every state in which nothing runs is drawn from their box. */
function clusterArrows(): readonly string[] {
  const moves = clusterMoves();
  const resting = [...new Set(moves.flatMap(({ from, event }) => (event === "work begins" ? [from] : [])))];
  const begins = grouped(
    moves.filter(({ event }) => event === "work begins"),
    ({ to }) => to,
  );
  const fromBox = begins.map((group) => ({
    ...group[0],
    from: group.length === resting.length ? "nothing_runs" : group[0].from,
    event: group[0].to === "REMOVING" ? "removal begins" : "work begins",
  }));
  const others = moves.filter(({ event }) => event !== "work begins");
  return [
    "direction LR",
    "state nothing_runs {",
    ...resting.map((state) => `    ${state}`),
    "}",
    ...arrows([...fromBox, ...others]),
  ];
}

// ---- waves

const VERDICT_LEADS: Readonly<
  Record<Exclude<WaveVerdict, "NOTHING">, { readonly to: WaveState; readonly event: string }>
> = {
  HALT: { to: "HALTED", event: "too many failed" },
  AWAIT: { to: "AWAITING", event: "wave has ended, next on request" },
  PAUSE: { to: "PAUSED", event: "wave has ended, pause" },
  OPEN: { to: "RUNNING", event: "wave has ended" },
};

/** What the verdicts lead to, whatever the facts, and what people ask for. */
function waveMoves(): readonly string[] {
  const states = Object.keys(WAVE_STATES) as WaveState[];
  const facts: Omit<WaveFacts, "state"> = {
    wave: 0,
    waves: 2,
    failures: 0,
    maxFailures: 0,
    unfinished: false,
    queued: true,
    manual: false,
    pauseSeconds: 0,
  };
  const cases: readonly Partial<WaveFacts>[] = [{}, { pauseSeconds: 1 }, { manual: true }, { failures: 1 }];
  const judged = states.flatMap((state) =>
    cases.flatMap((one) => {
      const verdict = judgeWaves({ ...facts, ...one, state });
      return verdict === "NOTHING" ? [] : [{ from: state, ...VERDICT_LEADS[verdict] }];
    }),
  );
  const asked = states.flatMap((state) => [
    ...(state === "PAUSED" ? [{ from: state, event: "pause is over", to: "RUNNING" }] : []),
    { from: state, event: "advanceWaves", to: "RUNNING" },
    ...(state === "HALTED"
      ? [{ from: state, event: "resumeWaves", to: "RUNNING" }]
      : [{ from: state, event: "haltWaves", to: "HALTED" }]),
  ]);
  return ["[*] --> RUNNING", ...arrows([...judged, ...asked])];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
