/**
 * Deliberate defects, one or more for each part of the service. `npm test` must find every one of them; `run.ts` shows
 * which test does.
 */

export interface Mutation {
  readonly id: string;
  /** The promise that the defect breaks. */
  readonly breaks: string;
  readonly file: string;
  /** Occurs exactly once in the file. */
  readonly from: string;
  readonly to: string;
  /** The tests that are expected to find it. */
  readonly tests: readonly string[];
}

const EXECUTION = "src/engine/execution";

export const MUTATIONS: readonly Mutation[] = [
  // Decisions: lifecycle, admission, plans
  {
    id: "M01",
    breaks: "an abort of a step that must not be interrupted waits for its end",
    file: "src/lifecycle/interrupts.ts",
    from: 'interruptible === "ALWAYS" ||',
    to: 'interruptible !== "AT_BOUNDARY" ||',
    tests: ["test/lifecycle/interrupts.test.ts"],
  },
  {
    id: "M02",
    breaks: "an abort counts even after the last step",
    file: "src/lifecycle/interrupts.ts",
    from: 'if (run.interrupt === "ABORT") return "ABORT";',
    to: 'if (run.interrupt === "ABORT" && run.workLeft) return "ABORT";',
    tests: ["test/lifecycle/interrupts.test.ts", "test/engine/abort.test.ts"],
  },
  {
    id: "M03",
    breaks: "a busy node is refused",
    file: "src/lifecycle/admission.ts",
    from: "if (node.busyWith) {",
    to: "if (node.busyWith && request.options.until) {",
    tests: ["test/lifecycle/admission.test.ts"],
  },
  {
    id: "M04",
    breaks: "a protected node is refused work that ends what runs on it",
    file: "src/lifecycle/admission.ts",
    from: "return verbOf(verb).isDestructive ||",
    to: "return",
    tests: ["test/lifecycle/admission.test.ts", "test/engine/node-flags.test.ts"],
  },
  {
    id: "M05",
    breaks: "an operation with failed and successful nodes is PARTIALLY_SUCCEEDED",
    file: "src/lifecycle/operation-states.ts",
    from: 'if (succeeded > 0) return "PARTIALLY_SUCCEEDED";',
    to: 'if (succeeded > failed) return "PARTIALLY_SUCCEEDED";',
    tests: ["test/lifecycle/derived-states.test.ts"],
  },
  {
    id: "M06",
    breaks: "waves halt at more failures than allowed, not at as many",
    file: "src/lifecycle/waves.ts",
    from: "facts.failures > facts.maxFailures",
    to: "facts.failures >= facts.maxFailures",
    tests: ["test/lifecycle/waves.test.ts"],
  },
  {
    id: "M07",
    breaks: "an idempotency key that is reused with another input is refused",
    file: "src/engine/admission/idempotency.ts",
    from: "if (await isSameInput(operation.inputHash)) {",
    to: "if ((await isSameInput(operation.inputHash)) || caller.actor) {",
    tests: ["test/engine/admission.test.ts", "test/engine/verbs.test.ts"],
  },
  {
    id: "M08",
    breaks: "a plan hash depends on the state of each node",
    file: "src/engine/admission/plan-hash.ts",
    from: "JSON.stringify([node.id, node.state, planHash, target, variables.hash, powerOnFailure])",
    to: "JSON.stringify([node.id, planHash, target, variables.hash, powerOnFailure])",
    tests: ["test/engine/dry-run.test.ts", "test/engine/plan.test.ts"],
  },
  {
    id: "M09",
    breaks: "a restart keeps the steps that succeeded",
    file: "src/engine/admission/earlier-work.ts",
    from: "keptOf(from, plan, succeeded,",
    to: "keptOf(from, plan, new Set(),",
    tests: ["test/engine/stop-restart.test.ts"],
  },
  // Slots, waves, retention
  {
    id: "M10",
    breaks: "a limit of a phase admits exactly its number of runs",
    file: "src/engine/scheduling/slot-scheduler.ts",
    from: "(this.#phases.get(phase) ?? 0) >= limit",
    to: "(this.#phases.get(phase) ?? 0) > limit",
    tests: ["test/engine/capacity-limits.test.ts"],
  },
  {
    id: "M11",
    breaks: "a resumed wave forgives earlier failures",
    file: "src/engine/scheduling/waves.ts",
    from: "forgiven: await countFailed(reader, operation.id)",
    to: "forgiven: 0",
    tests: ["test/engine/waves.test.ts"],
  },
  {
    id: "M12",
    breaks: "retention deletes only transitions that are old enough",
    file: "src/store/transitions.ts",
    from: "at < now() - make_interval(days => ${days}) as old",
    to: "at < now() as old",
    tests: ["test/engine/retention.test.ts", "test/graphql/retention.test.ts"],
  },
  // Execution
  {
    id: "M13",
    breaks: "a claim raises the fence, so that an earlier owner cannot write",
    file: "src/store/run-claims.ts",
    from: "update runs set fence = fence + 1, lease_until = now() + ${LEASE} from lost",
    to: "update runs set fence = fence + 0, lease_until = now() + ${LEASE} from lost",
    tests: ["test/engine/takeover.test.ts", "test/engine/sweep.test.ts", "test/engine/replicas.test.ts"],
  },
  {
    id: "M14",
    breaks: "a step that is not idempotent is not entered a second time",
    file: `${EXECUTION}/claim.ts`,
    from: "!step.idempotent && attempt.memo === null",
    to: "!step.idempotent && attempt.memo !== null",
    tests: ["test/engine/sweep.test.ts"],
  },
  {
    id: "M15",
    breaks: "a group whose transaction fails is committed one by one",
    file: `${EXECUTION}/group-commit.ts`,
    from: "if (isConnectionLoss(error) && sqlState(error) !== IDLE_IN_TRANSACTION) entry.reject(error);",
    to: "if (error) entry.reject(error);",
    tests: ["test/engine/group-commit.test.ts"],
  },
  {
    id: "M16",
    breaks: "a parked step gets its memo back",
    file: `${EXECUTION}/settle-step.ts`,
    from: 'ledger.changeAttempt(attempt, { state: "WAITING", memo: outcome.memo, callback: null });',
    to: 'ledger.changeAttempt(attempt, { state: "WAITING", memo: null, callback: null });',
    tests: ["test/engine/steps.test.ts", "test/engine/wait-step.test.ts"],
  },
  {
    id: "M17",
    breaks: "a callback counts once",
    file: `${EXECUTION}/callback.ts`,
    from: "{ openGeneration: null }",
    to: "{}",
    tests: ["test/engine/callback.test.ts"],
  },
  {
    id: "M18",
    breaks: "a step is retried as often as it declares",
    file: `${EXECUTION}/settle-step.ts`,
    from: "attempt.number <= step.retries",
    to: "attempt.number < step.retries",
    tests: ["test/engine/steps.test.ts"],
  },
  {
    id: "M19",
    breaks: "an abort switches the power off if it is asked to",
    file: `${EXECUTION}/abort-machine.ts`,
    from: "if (begun.size > 0 && powerOff) {",
    to: "if (begun.size > 1 && powerOff) {",
    tests: ["test/engine/abort-clean-up.test.ts", "test/engine/abort.test.ts"],
  },
  {
    id: "M20",
    breaks: "an unhold ends the hold step as succeeded",
    file: "src/engine/interruption/unhold.ts",
    from: 'state: "SUCCEEDED",',
    to: 'state: "WAITING",',
    tests: ["test/engine/hold-step.test.ts"],
  },
  {
    id: "M21",
    breaks: "a withdrawn abort frees the operation too",
    file: "src/engine/interruption/withdraw-abort.ts",
    from: 'if (operation?.interrupt !== "ABORT" || operation.finishedAt) return;',
    to: "if (operation) return;",
    tests: ["test/engine/withdraw-abort.test.ts"],
  },
  {
    id: "M22",
    breaks: "only fresh leases let a process command a machine",
    file: "src/engine/claims/leases.ts",
    from: "performance.now() - lease.heldAt < FRESH_MS",
    to: "performance.now() - lease.heldAt < Number.POSITIVE_INFINITY",
    tests: ["test/engine/leases.test.ts"],
  },
  {
    id: "M23",
    breaks: "secrets are redacted inside the values of objects",
    file: "src/engine/input/secret-redactor.ts",
    from: "[text(key), json(member)]",
    to: "[text(key), member]",
    tests: ["test/graphql/secrets.test.ts", "test/drivers/mask.test.ts"],
  },
  // Store and feed
  {
    id: "M24",
    breaks: "polling finds what a notification missed",
    file: "src/feed/tail.ts",
    from: "    look();\n    changes.poll();",
    to: "",
    tests: ["test/feed/tail.test.ts", "test/feed/node-stream.test.ts"],
  },
  {
    id: "M25",
    breaks: "a cursor that is older than the log is expired",
    file: "src/store/transitions.ts",
    from: "isSame && position >= earliest.position &&",
    to: "isSame && position >= earliest.position - 1_000_000 &&",
    tests: ["test/graphql/retention.test.ts", "test/engine/retention.test.ts"],
  },
  {
    id: "M26",
    breaks: "a filter means the same in memory as in the database",
    file: "src/store/node-filter.ts",
    from: "test: (wanted) => (node) => ((node[name] ?? null) !== null) === wanted,",
    to: "test: () => (node) => (node[name] ?? null) !== null,",
    tests: ["test/store/node-filter.test.ts"],
  },
  {
    id: "M27",
    breaks: "unknown power is not a drift",
    file: "src/store/node-fields.ts",
    from: 'powerState !== "UNKNOWN" && powerState !== wantedPower',
    to: "powerState !== wantedPower",
    tests: ["test/engine/power.test.ts", "test/feed/shared-reads.test.ts", "test/graphql/nodes.test.ts"],
  },
  // GraphQL, HTTP, access
  {
    id: "M28",
    breaks: "an unexpected error is masked",
    file: "src/graphql/base/error-masking.ts",
    from: "error.originalError instanceof GraphQLError) &&",
    to: "error.originalError instanceof Error) &&",
    tests: ["test/graphql/mask.test.ts", "test/http/server.test.ts"],
  },
  {
    id: "M29",
    breaks: "a request that costs too much is refused",
    file: "src/graphql/execution/guards.ts",
    from: "if (requested <= LIMITS.cost)",
    to: "if (requested <= LIMITS.cost * 1_000)",
    tests: ["test/http/guards.test.ts"],
  },
  {
    id: "M30",
    breaks: "a request that nests too deeply is refused",
    file: "src/graphql/execution/document.ts",
    from: "if (depth > LIMITS.depth)",
    to: "if (depth > LIMITS.depth + 1)",
    tests: ["test/http/guards.test.ts"],
  },
  {
    id: "M31",
    breaks: "a wrong token is refused",
    file: "src/access/access.ts",
    from: "return isSame(given, token) ?",
    to: "return given.length === token.length ?",
    tests: ["test/access/access.test.ts"],
  },
  // Drivers, settings, client
  {
    id: "M32",
    breaks: "a worker process that hangs is killed with its children",
    file: "src/drivers/isolation/worker-handle.ts",
    from: 'process.kill(-this.#child.pid, "SIGKILL");',
    to: 'process.kill(this.#child.pid, "SIGTERM");',
    tests: ["test/drivers/isolation.test.ts"],
  },
  {
    id: "M33",
    breaks: "a secret is masked in each of its lines",
    file: "src/drivers/secret-masking.ts",
    from: "[secret, ...secret.split(/[\\r\\n]+/).map((line) => line.trim())]",
    to: "[secret]",
    tests: ["test/drivers/mask.test.ts"],
  },
  {
    id: "M34",
    breaks: "a short token is refused at the start",
    file: "src/config/values.ts",
    from: "if (token.length < TOKEN_LENGTH_MIN)",
    to: 'if (token === " ")',
    tests: ["test/config.test.ts"],
  },
  {
    id: "M35",
    breaks: "a client that reconnects continues after its cursor",
    file: "packages/client/src/position.ts",
    from: "if (at <= position) return null;",
    to: "if (at < position) return null;",
    tests: ["test/client/position.test.ts", "test/client/watch-nodes.test.ts"],
  },
  {
    id: "M36",
    breaks: "secret settings cannot be read",
    file: "src/graphql/schema/driver-settings.ts",
    from: "const open = shape.fields.filter(({ secret }) => !secret);",
    to: "const open = shape.fields;",
    tests: ["test/graphql/driver-settings.test.ts", "test/graphql/secrets.test.ts"],
  },
];
