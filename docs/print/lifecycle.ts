/** docs/lifecycle.md: the states of nodes, operations, runs, waves and clusters, and the transitions between them. */
import { CLUSTER_RULES, STAGES } from "../../src/lifecycle/cluster-state.ts";
import { isAtRest } from "../../src/lifecycle/machine.ts";
import { NODE_EDGES, NODE_STATES, NODE_STATE_NAMES, SELF_EVENTS } from "../../src/lifecycle/node-states.ts";
import type { Edge, NodeEvent, NodeState } from "../../src/lifecycle/node-states.ts";
import {
  OPERATION_STATES,
  RUN_STATES,
  UNFINISHED_OPERATION_STATES,
  UNFINISHED_RUN_STATES,
} from "../../src/lifecycle/operation-states.ts";
import { cleanUpRoute } from "../../src/lifecycle/verbs.ts";
import { WAIT_REASONS } from "../../src/lifecycle/waiting.ts";
import { WAVE_STATES, judgeWaves } from "../../src/lifecycle/waves.ts";
import type { WaveFacts, WaveState, WaveVerdict } from "../../src/lifecycle/waves.ts";
import { arrows, code, codes, grouped, meanings, paragraphs, stateDiagram, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";
import { routeRows } from "./routes.ts";

export const LIFECYCLE_PAGE: Page = { file: "lifecycle.md", source: "src/lifecycle", text: lifecyclePage };

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
    "## Transitions",
    "The registration of a node (from no state to `ENROLLED`) and its deletion are logged as `register` and `delete`, and the API writes the names of events in upper case.",
    table(
      ["from", "by a request", "by the engine"],
      grouped(MOVES, ({ from }) => from).map((moves) => [
        code(moves[0].from),
        movesBy("verb", moves),
        movesBy("engine", moves),
      ]),
    ),
    `The event \`recover\` leads from a state to itself: a process died, hung or was shut down in the middle of a step, and another process resumed the run. \`abort_pending\` and \`abort_withdrawn\` also leave the state unchanged and occur in every state: an abort that must wait for the end of a step was requested, or withdrawn. So does \`power_forced\`: the power is changed while a step waits.`,
    "## Routes",
    "The effect of each verb depends on the node's state: see the [page of the verb](verbs.md). A node in another state is refused with `INVALID_STATE`, one with an unfinished run with `BUSY`.",
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
    "## Waves",
    "An unfinished operation with waves has one of these additional states. To read its progress and to move it, see [advanceWaves](verbs/advanceWaves.md).",
    stateDiagram(waveMoves()),
    "## What a run waits for",
    "A run that is queued, waiting or on hold shows the reason: `run { waiting { reason until description } }`.",
    meanings("reason", WAIT_REASONS),
    "## States of a cluster",
    "The state of a cluster is derived from its nodes and the operations on them, and never stored; the rules are in `src/lifecycle/cluster-state.ts`. The first question answered yes decides. Power changes and inspections in place do not count as operations here, and a dry run changes nothing.",
    table(
      ["question", "state"],
      CLUSTER_RULES.map(({ state, when }) => [capital(when), code(state)]),
    ),
  );
}

/** The states that transitions by a request, or by the engine, lead to, each with its events. */
function movesBy(by: Edge["by"], moves: readonly Edge[]): string {
  return grouped(
    moves.filter((move) => move.by === by),
    ({ to }) => to,
  )
    .map((group) => `${code(group[0].to)} (${group.map(({ event }) => event).join(", ")})`)
    .join(", ");
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
