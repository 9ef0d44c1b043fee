/** The reason for which a run waits, derived from the run and its operation. */
import { describe, expect, test } from "vitest";
import { RUN_STATES } from "../../src/lifecycle/operation-states.ts";
import type { RunState } from "../../src/lifecycle/operation-states.ts";
import { WAIT_REASONS, waitingOf } from "../../src/lifecycle/waiting.ts";
import type { WaitingFacts } from "../../src/lifecycle/waiting.ts";

const AT = new Date("2026-01-31T09:30:00.000Z");
const BEFORE = new Date("2026-01-31T09:29:00.000Z");
const operation: WaitingFacts["operation"] = {
  wave: 0,
  waveState: null,
  waveReason: null,
  waveUntil: null,
  maxParallel: null,
};
const facts = (
  change: Partial<Omit<WaitingFacts, "operation">> & { readonly operation?: Partial<WaitingFacts["operation"]> },
): WaitingFacts => ({
  state: "WAITING",
  isAborting: false,
  waitReason: null,
  waitFor: null,
  wakeAt: null,
  wave: 0,
  heldBy: null,
  step: "deploy.boot_system",
  holdReason: null,
  hasDisappeared: false,
  disappearedUntil: null,
  inMaintenance: false,
  ...change,
  operation: { ...operation, ...change.operation },
});

const CASES = [
  ...(["GROUP", "BUDGET"] as const).map((reason) => ({
    why: `held by its host group: ${reason}`,
    facts: facts({ state: "QUEUED", heldBy: { reason, description: "Numbers." } }),
    reason,
    until: null,
    says: "Numbers.",
  })),
  {
    why: "parked and being aborted",
    facts: facts({ waitReason: "TIME", wakeAt: AT, isAborting: true }),
    reason: "ABORTING",
    until: null,
    says: "The run is being ended: deploy.boot_system is canceled and undone, and the power is set. If that does not end, abort it by force.",
  },
  {
    why: "parked for a time",
    facts: facts({ waitReason: "TIME", wakeAt: AT }),
    reason: "TIME",
    until: AT,
    says: "deploy.boot_system waits and continues at 2026-01-31T09:30:00.000Z.",
  },
  {
    why: "parked for a callback",
    facts: facts({ waitReason: "CALLBACK", wakeAt: AT }),
    reason: "CALLBACK",
    until: AT,
    says: "deploy.boot_system waits for a callback of the machine, until 2026-01-31T09:30:00.000Z.",
  },
  {
    why: "parked for a callback in maintenance",
    facts: facts({ waitReason: "CALLBACK", wakeAt: AT, inMaintenance: true }),
    reason: "CALLBACK",
    until: AT,
    says: "deploy.boot_system waits for a callback of the machine, until 2026-01-31T09:30:00.000Z. Its timeout stands still, because the node is in maintenance.",
  },
  {
    why: "parked for a retry",
    facts: facts({ waitReason: "RETRY", wakeAt: AT }),
    reason: "RETRY",
    until: AT,
    says: "deploy.boot_system failed and will be retried at 2026-01-31T09:30:00.000Z.",
  },
  {
    why: "parked for the callback of a node that has disappeared",
    facts: facts({ waitReason: "CALLBACK", wakeAt: AT, hasDisappeared: true }),
    reason: "DISAPPEARED",
    until: AT,
    says: "deploy.boot_system waits for a callback of the machine, until 2026-01-31T09:30:00.000Z. Monitoring has reported the node as disappeared: abort the run if the node will not come back.",
  },
  {
    why: "parked for the callback of a node that has disappeared, at a site with a limit",
    facts: facts({ waitReason: "CALLBACK", wakeAt: AT, hasDisappeared: true, disappearedUntil: BEFORE }),
    reason: "DISAPPEARED",
    until: BEFORE,
    says: "deploy.boot_system waits for a callback of the machine, until 2026-01-31T09:30:00.000Z. Monitoring has reported the node as disappeared: the run fails at 2026-01-31T09:29:00.000Z unless the node is seen again; abort it if the node will not come back.",
  },
  {
    why: "parked in maintenance on a node that has disappeared, at a site with a limit",
    facts: facts({
      waitReason: "CALLBACK",
      wakeAt: AT,
      inMaintenance: true,
      hasDisappeared: true,
      disappearedUntil: BEFORE,
    }),
    reason: "DISAPPEARED",
    until: AT,
    says: "deploy.boot_system waits for a callback of the machine, until 2026-01-31T09:30:00.000Z. Its timeout stands still, because the node is in maintenance. Monitoring has reported the node as disappeared: abort the run if the node will not come back.",
  },
  {
    why: "on hold on a node that has disappeared",
    facts: facts({ state: "HOLDING", waitReason: "HOLD", hasDisappeared: true }),
    reason: "HOLD",
    until: null,
    says: "The run is on hold. Release the hold to go on. Monitoring has reported the node as disappeared: abort the run if the node will not come back.",
  },
  {
    why: "on hold",
    facts: facts({ state: "HOLDING", waitReason: "HOLD", step: "engine.hold", holdReason: "look at the cables" }),
    reason: "HOLD",
    until: null,
    says: "The run is on hold (look at the cables). Release the hold to go on.",
  },
  {
    why: "queued for a worker",
    facts: facts({ state: "QUEUED", waitReason: "CONCURRENCY" }),
    reason: "CONCURRENCY",
    until: null,
    says: "The run can start. It waits for a replica with free capacity.",
  },
  {
    why: "queued for a phase",
    facts: facts({ state: "QUEUED", waitFor: "phase:clean" }),
    reason: "CAPACITY_PHASE",
    until: null,
    says: "The site's limit for phase clean is reached. The run continues when a node leaves this phase.",
  },
  {
    why: "parked for a phase",
    facts: facts({ waitReason: "CAPACITY", waitFor: "phase:deploy" }),
    reason: "CAPACITY_PHASE",
    until: null,
    says: "The site's limit for phase deploy is reached. The run continues when a node leaves this phase.",
  },
  {
    why: "queued for a controller",
    facts: facts({ state: "QUEUED", waitFor: "controller:10.0.0.7:623" }),
    reason: "CAPACITY_CONTROLLER",
    until: null,
    says: "The site's limit for controller 10.0.0.7:623 is reached. The run continues when work on one of its nodes has ended.",
  },
  {
    why: "queued for a limit while the waves are halted",
    facts: facts({ state: "QUEUED", waitFor: "phase:clean", operation: { waveState: "HALTED" } }),
    reason: "CAPACITY_PHASE",
    until: null,
    says: "The site's limit for phase clean is reached. The run continues when a node leaves this phase.",
  },
  {
    why: "queued behind maxParallel",
    facts: facts({ state: "QUEUED", operation: { maxParallel: 5 } }),
    reason: "MAX_PARALLEL",
    until: null,
    says: "The operation works on at most 5 nodes at the same time. The run starts when one of them has ended.",
  },
  {
    why: "queued in an open wave",
    facts: facts({ state: "QUEUED", wave: 1, operation: { wave: 1, waveState: "RUNNING", maxParallel: 1 } }),
    reason: "MAX_PARALLEL",
    until: null,
    says: "The operation works on at most 1 node at the same time. The run starts when one of them has ended.",
  },
  {
    why: "queued for its wave",
    facts: facts({ state: "QUEUED", wave: 2, operation: { waveState: "RUNNING", maxParallel: 5 } }),
    reason: "WAVE",
    until: null,
    says: "The run is in wave 3; wave 1 is running.",
  },
  {
    why: "queued in a pause between waves",
    facts: facts({ state: "QUEUED", wave: 1, operation: { waveState: "PAUSED", waveUntil: AT } }),
    reason: "WAVE",
    until: AT,
    says: "The run is in wave 2; wave 2 starts at 2026-01-31T09:30:00.000Z.",
  },
  {
    why: "queued for advanceWaves",
    facts: facts({ state: "QUEUED", wave: 1, operation: { waveState: "AWAITING", waveUntil: AT } }),
    reason: "WAVE",
    until: null,
    says: "The run is in wave 2; wave 2 starts when the waves are advanced.",
  },
  {
    why: "queued while the waves are halted",
    facts: facts({ state: "QUEUED", operation: { waveState: "HALTED", waveReason: "3 nodes failed." } }),
    reason: "WAVE_HALTED",
    until: null,
    says: "The waves of the operation are halted (3 nodes failed); resume them to go on.",
  },
  {
    why: "parked by maintenance",
    facts: facts({ waitReason: "MAINTENANCE" }),
    reason: "PAUSED_BY_MAINTENANCE",
    until: null,
    says: "The node is in maintenance. The run continues when maintenance ends.",
  },
] as const;

describe("waiting run", () => {
  test.each(CASES)("run that is $why waits for $reason", ({ facts: given, reason, until, says }) => {
    expect(waitingOf(given)).toEqual({ reason, until, description: says });
  });

  test.each(Object.keys(RUN_STATES).filter((state) => !["QUEUED", "WAITING", "HOLDING"].includes(state)) as RunState[])(
    "run in state %s waits for nothing",
    (state) => {
      expect(waitingOf(facts({ state, waitReason: "TIME", waitFor: "phase:clean" }))).toBeNull();
    },
  );

  test("run that is about to be claimed again waits for nothing", () => {
    expect(waitingOf(facts({ waitReason: null }))).toBeNull();
  });
});

test("every wait reason is covered", () => {
  expect(new Set(CASES.map(({ reason }) => reason))).toEqual(new Set(Object.keys(WAIT_REASONS)));
});
