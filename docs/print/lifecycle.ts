/** docs/lifecycle.md: the states of nodes, operations, runs, waves and clusters, and the transitions between them. */
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
import { routeRows, routeTable } from "./routes.ts";

export const LIFECYCLE_PAGE: Page = { file: "lifecycle.md", source: "src/lifecycle", text: lifecyclePage };

const PHASES: readonly Phase[] = ["verify", "inspect", "clean", "deploy", "undeploy"];
/** Events that interrupt a node's route; the overview diagram omits them. */
const SETBACKS: ReadonlySet<NodeEvent> = new Set(["fail", "abort", "stop"]);
const MOVES = NODE_EDGES.filter(({ event }) => !SELF_EVENTS.has(event));

function lifecyclePage(): string {
  return paragraphs(
    "# The lifecycle of a node",
    "This page is for operators and client developers. It lists the states of nodes, operations, runs, waves and clusters, and every transition between them.",
    "A node is in exactly one state. The table of allowed transitions is `src/lifecycle/node-states.ts`; the database holds a copy and rejects every other change, and each change is a row in the transition log. A state is at rest (**stable**, **failed**) or belongs to an unfinished run: **running** (a step is running), **wait** (parked until a time or a callback; no process holds it), **hold** (paused on request).",
    "## Overview",
    "Each phase is one box; failures, aborts and stops are omitted.",
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
    "A user's request can cause the transitions marked “verb”; only the engine causes the others. The registration of a node (from no state to `ENROLLED`) and its deletion are logged as `register` and `delete`, and the API writes the names of events in upper case.",
    table(
      ["from", "event", "to", "by"],
      MOVES.map(({ from, event, to, by }) => [code(from), event, code(to), by]),
    ),
    `The event \`recover\` leads from a state to itself: a process died, hung or was shut down in the middle of a step, and another process resumed the run. It occurs in ${codes(NODE_EDGES.filter(({ event }) => event === "recover").map(({ from }) => from))}. \`abort_pending\` and \`abort_withdrawn\` also leave the state unchanged and occur in every state: an abort that must wait for the end of a step was requested, or withdrawn.`,
    "## Verbs",
    "The effect of each verb on a node depends on the node's state. A node in a state that is not listed is refused with `INVALID_STATE`; a node with an unfinished run is refused with `BUSY`. Phases in brackets run in place: the node's state does not change. An inspection in place requires a driver that inspects without a reboot.",
    routeTable(),
    "If the failure policy requires it, a node is cleaned up after its operation failed:",
    table(
      ["from", "phases", "ends"],
      routeRows((state) => (isAtRest(state) ? cleanUpRoute(state) : null)),
    ),
    "## Stages",
    "The stage records how far a node has come, in addition to its state. A restart uses it to decide which work to keep.",
    meanings("stage", STAGES),
    "## States of an operation",
    `${codes(UNFINISHED_OPERATION_STATES)} are unfinished; the others are final.`,
    meanings("state", OPERATION_STATES),
    "## States of a run",
    `A run is the share of an operation on one node. ${codes(UNFINISHED_RUN_STATES)} are unfinished; the others are final. A node has at most one unfinished run.`,
    meanings("state", RUN_STATES),
    "## Failure policies",
    "The failure policy decides how a failed node affects the others of its operation. The default is `CLEAN_UP_ALL` for a commission and `LEAVE` for every other verb.",
    meanings("policy", FAILURE_POLICIES),
    "## Waves",
    "An unfinished operation with waves has one of these additional states. To read its progress and to move it, see [advanceWaves](verbs/advanceWaves.md).",
    stateDiagram(waveMoves()),
    meanings("state", WAVE_STATES),
    "## What a run waits for",
    "A run that is queued, waiting or on hold shows the reason: `run { waiting { reason until description } }`.",
    meanings("reason", WAIT_REASONS),
    "## States of a cluster",
    "The state of a cluster is derived from its nodes and the operations on them, and never stored; the rules are in `src/lifecycle/cluster-state.ts`. The first question answered yes decides. Power changes and inspections in place do not count as operations here, and a dry run changes nothing.",
    clusterDecision(),
    meanings("state", CLUSTER_STATES),
    "The diagram shows the cluster's transitions as operations run on it: `done` on all of its nodes, `stopped` on some, or `failed` on some (failed or aborted). Nodes outside an operation do not change, so a cluster with one failed node is not operational after an operation on the other nodes is done.",
    stateDiagram(clusterArrows()),
  );
}

/** The state itself if it is at rest, else its phase, which stands for the running, waiting and holding states. */
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

/** Transitions within the phase, into it and out of it. */
function insideOf(phase: Phase): readonly string[] {
  const own = (state: NodeState) => NODE_STATES[state].phase === phase;
  const under = (state: NodeState) => own(state) && !isAtRest(state);
  const edges: readonly Edge[] = MOVES.filter(({ from, to }) => under(from) || under(to) || own(from));
  return arrows(edges);
}

// ---- clusters

/** The table of rules as a chain of questions; the last row applies if none matches. */
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

/** Transitions between states of a cluster. Transitions common to all resting states start from a box around them. */
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
  HALT: { to: "HALTED", event: "too many failures" },
  AWAIT: { to: "AWAITING", event: "wave has ended, next on request" },
  PAUSE: { to: "PAUSED", event: "wave has ended, pause" },
  OPEN: { to: "RUNNING", event: "wave has ended" },
};

/** Transitions by decision of the engine, under all combinations of facts, and by request. */
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
    ...(state === "PAUSED" ? [{ from: state, event: "pause has ended", to: "RUNNING" }] : []),
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
