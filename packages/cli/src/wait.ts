/** Waits for operations: shows their progress until all have ended, and returns the exit code of their result. */
import { createChangeMap } from "../../client/src/change-map.ts";
import { follow, send } from "./api.ts";
import type { Position, StreamItem } from "./api.ts";
import { CliError, EXIT } from "./exit.ts";
import type { Answers } from "./requests.ts";
import { printJson, warn, withInterrupt } from "./session.ts";
import type { Session } from "./session.ts";
import { cut, durationText, lengthOf, plural, safe } from "./text.ts";

type Operation = NonNullable<Answers["operationChanges"]["item"]["operation"]>;
type Run = NonNullable<Answers["runChanges"]["item"]["run"]>;
type FailureGroup = NonNullable<Answers["operationFailures"]["operation"]>["failures"]["groups"][number];

export interface WaitOptions {
  readonly timeoutSeconds: number | null;
  readonly failFast: boolean;
  /** Whether a stopped or aborted operation is what was asked for. */
  readonly wantsEnd?: boolean;
}

/** Nodes up to which the step of each is shown. */
const RUNS_MAX = 40;
const REDRAW_MS = 100;
const LINE_MS = 60_000;
/** Lines end at the edge of the terminal, which knows the width of its characters. */
const [NO_WRAP, WRAP] = ["\u001b[?7l", "\u001b[?7h"];
const [CLEAR_LINE, CLEAR_BELOW] = ["\u001b[K", "\u001b[J"];

export async function awaitOperations(session: Session, ids: readonly string[], options: WaitOptions): Promise<number> {
  const end = new AbortController();
  const timer =
    options.timeoutSeconds === null
      ? undefined
      : setTimeout(() => end.abort(EXIT.timeout), Math.min(options.timeoutSeconds * 1000, 2 ** 31 - 1));
  const { server } = session;
  const isDrawn = process.stderr.isTTY && process.env["TERM"] !== "dumb" && server.trace === null;
  const view = session.output === "json" ? jsonView() : isDrawn ? terminalView() : lineView();
  const report = (text: string) => {
    view.done();
    server.report(text);
  };
  try {
    return await withInterrupt(
      () => end.abort(EXIT.interrupted),
      () => followToEnd({ ...session, server: { ...server, report } }, { ids, options, view, signal: end.signal }),
    );
  } catch (error) {
    if (!end.signal.aborted) throw error;
    view.done();
    const code = end.signal.reason as number;
    const why = code === EXIT.timeout ? `Not finished after ${durationText(options.timeoutSeconds ?? 0)}. ` : "";
    for (const id of ids)
      warn(
        `${why}Operation ${id} continues.\n  watch: ostler operations watch ${id}\n  stop:  ostler operations stop ${id}\n  abort: ostler operations abort ${id}`,
      );
    return code;
  } finally {
    clearTimeout(timer);
    end.abort();
    view.done();
  }
}

interface Wait {
  readonly ids: readonly string[];
  readonly options: WaitOptions;
  readonly view: View;
  readonly signal: AbortSignal;
}

async function followToEnd(session: Session, { ids, options, view, signal }: Wait): Promise<number> {
  const map = createChangeMap<Operation>();
  const failed = new Map<string, number>();
  const items = follow(session.server, "operationChanges", {
    variables: { ids },
    position: map,
    signal,
    isPatient: true,
  });
  let runs: Promise<void> | null = null;
  for await (const item of items) {
    view.item(item);
    if (item.operation) {
      const { operation } = item;
      const count = operation.failedCount;
      if (count > (failed.get(operation.id) ?? 0)) {
        failed.set(operation.id, count);
        view.failures(operation.id, await failuresOf(session, operation.id));
        if (options.failFast && operation.finishedAt === null) {
          view.done();
          warn(`Operation ${operation.uuid} has a failed node (--fail-fast), and continues.`);
          return EXIT.failed;
        }
      }
      view.operation(operation);
      if (view.wantsRuns && ids.length === 1 && operation.totalCount <= RUNS_MAX)
        runs ??= followRuns(session, operation.id, { view, signal });
    }
    if (map.cursor === null) continue;
    if (map.items.size < ids.length)
      throw new CliError(EXIT.refused, `The service has no operation ${ids.map(safe).join(", ")}.`);
    const operations = [...map.items.values()];
    if (operations.every(({ finishedAt }) => finishedAt !== null)) {
      view.done();
      return resultOf(operations, options);
    }
  }
  throw new CliError(EXIT.unreachable, "The service ended the stream of the operation.");
}

async function followRuns(
  session: Session,
  operation: string,
  { view, signal }: Pick<Wait, "view" | "signal">,
): Promise<void> {
  try {
    const position = createChangeMap<Run>() as Position;
    const server = { ...session.server, report: () => {} };
    const items = follow(server, "runChanges", { variables: { operation }, position, signal, isPatient: true });
    for await (const { run } of items) if (run) view.run(run);
  } catch {
    // The operation is followed on its own: it reports what is wrong with the connection.
  }
}

async function failuresOf(session: Session, id: string): Promise<readonly FailureGroup[]> {
  try {
    const { operation } = await send(session.server, "operationFailures", { id });
    return operation?.failures.groups ?? [];
  } catch {
    // The connection is lost at this moment; the next failure, or the end, shows them.
    return [];
  }
}

/** Failures that stopped nodes which did not fail. */
const GROUP_FAILURES = new Set(["TOLERANCE_EXCEEDED", "CRITICAL_NODE_FAILED"]);

function resultOf(operations: readonly Operation[], { wantsEnd = false }: WaitOptions): number {
  const codes = operations.map((operation) => {
    const { uuid, kind, state, totalCount, failedCount, startedAt, finishedAt, firstFailure } = operation;
    const took =
      startedAt && finishedAt ? ` in ${durationText((Date.parse(finishedAt) - Date.parse(startedAt)) / 1000)}` : "";
    const id = uuid.slice(0, 8);
    const failures = failedCount > 0 ? `, ${failedCount} failed: ostler operations get ${id}` : "";
    const canGoOn = /^(STOPPED|ABORTED)$/.test(state) && kind !== "DISCOVER";
    const next = canGoOn ? `; to go on: ostler operations restart ${id}` : "";
    warn(`operation ${id}  ${kind} ${state}  ${plural(totalCount, "node")}${took}${failures}${next}`);
    if (firstFailure && GROUP_FAILURES.has(firstFailure.code)) warn(`${firstFailure.code}: ${firstFailure.message}`);
    if (state.startsWith("SUCCEEDED")) return EXIT.done;
    if (/^(STOPPED|ABORTED)$/.test(state)) return wantsEnd ? EXIT.done : EXIT.ended;
    return wantsEnd && state !== "FAILED" ? EXIT.done : EXIT.failed;
  });
  if (codes.includes(EXIT.failed)) return EXIT.failed;
  return codes.includes(EXIT.ended) ? EXIT.ended : EXIT.done;
}

/** Where progress is shown. */
interface View {
  readonly wantsRuns: boolean;
  item(item: StreamItem): void;
  operation(operation: Operation): void;
  run(run: Run): void;
  failures(id: string, groups: readonly FailureGroup[]): void;
  /** Completes what is shown, before other lines and at the end. */
  done(): void;
}

const NO_VIEW: View = { wantsRuns: false, item() {}, operation() {}, run() {}, failures() {}, done() {} };

function jsonView(): View {
  return {
    ...NO_VIEW,
    item: (item) => {
      if (item.__typename === "OperationUpserted") printJson(item);
    },
  };
}

/** A line per group of failures, per wave and per minute. */
function lineView(): View {
  const shown = new Map<string, string>();
  let lastLine = 0;
  return {
    ...NO_VIEW,
    operation(operation) {
      const key = `${operation.rollout?.wave ?? 0} ${operation.rollout?.state ?? ""} ${operation.state}`;
      if (shown.get(operation.id) === key && Date.now() - lastLine < LINE_MS) return;
      shown.set(operation.id, key);
      lastLine = Date.now();
      warn(summaryOf(operation));
    },
    failures(id, groups) {
      for (const group of groups) {
        const text = failureText(group);
        const key = `${id} ${group.code ?? ""} ${group.step ?? ""} ${group.cause}`;
        if (shown.get(key) !== text) warn(text);
        shown.set(key, text);
      }
    },
  };
}

/** The state of everything, redrawn at most ten times a second. The cursor stays visible, however the command ends. */
function terminalView(): View {
  const operations = new Map<string, Operation>();
  const runs = new Map<string, Run>();
  const failures = new Map<string, readonly FailureGroup[]>();
  let timer: NodeJS.Timeout | null = null;
  /** Lengths of the lines that are shown. */
  let drawn: readonly number[] = [];
  const draw = () => {
    timer = null;
    // A terminal of unknown size has 0 of both.
    const [columns, rows] = [process.stderr.columns || 80, process.stderr.rows || 24];
    const lines = [
      ...[...operations.values()].flatMap((one) => [summaryOf(one), barOf(one, columns)]),
      ...[...failures.values()].flat().map(failureText),
      ...[...runs.values()]
        .toSorted(byName)
        .filter(({ state }) => !/^(SUCCEEDED|QUEUED)$/.test(state))
        .map(runText),
    ]
      .slice(0, rows - 1)
      .map((line) => cut(line, columns - 1));
    // A terminal that became narrower has wrapped the lines that are shown.
    const shown = drawn.reduce((sum, length) => sum + Math.max(1, Math.ceil(length / columns)), 0);
    const above = shown === 0 ? "" : `\u001b[${shown}A`;
    const text = lines.map((line) => `${line}${CLEAR_LINE}\n`).join("");
    process.stderr.write(`${NO_WRAP}\r${above}${text}${CLEAR_BELOW}${WRAP}`);
    drawn = lines.map(lengthOf);
  };
  const redraw = () => {
    timer ??= setTimeout(draw, REDRAW_MS);
  };
  process.stderr.on("resize", () => {
    if (drawn.length > 0) redraw();
  });
  return {
    ...NO_VIEW,
    wantsRuns: true,
    operation(operation) {
      operations.set(operation.id, operation);
      // The stream of runs may be behind.
      if (operation.finishedAt !== null) runs.clear();
      redraw();
    },
    run(run) {
      runs.set(run.id, run);
      redraw();
    },
    failures(id, groups) {
      failures.set(id, groups);
      redraw();
    },
    done() {
      if (timer !== null) {
        clearTimeout(timer);
        draw();
      }
      drawn = [];
    },
  };
}

export function summaryOf({
  uuid,
  kind,
  state,
  totalCount,
  finishedCount,
  failedCount,
  etaSeconds,
  ...more
}: Operation): string {
  const waiting = more.runCounts.find((one) => one.state === "WAITING")?.count ?? 0;
  return [
    `operation ${uuid.slice(0, 8)}`,
    `${kind} ${state}`,
    `${finishedCount}/${totalCount}`,
    ...(more.rollout && more.rollout.waves > 1
      ? [
          `wave ${more.rollout.wave} of ${more.rollout.waves}${more.rollout.state === "RUNNING" ? "" : ` ${more.rollout.state}`}`,
        ]
      : []),
    ...(etaSeconds === null || more.finishedAt !== null ? [] : [`about ${durationText(etaSeconds)}`]),
    ...(failedCount > 0 ? [`failed ${failedCount}`] : []),
    ...(waiting > 0 ? [`waiting ${waiting}`] : []),
  ].join("   ");
}

function barOf({ progress, finishedCount, totalCount }: Operation, columns: number): string {
  const width = Math.min(40, Math.max(10, columns - 10));
  const done = progress ?? (totalCount === 0 ? 0 : finishedCount / totalCount);
  const full = Math.round(Math.min(1, Math.max(0, done)) * width);
  return "█".repeat(full) + "░".repeat(width - full);
}

export function failureText({ step, cause, nodes, nodeCount }: FailureGroup): string {
  const names = nodes.map(({ name }) => name).join(" ");
  const others = nodeCount > nodes.length ? ` and ${nodeCount - nodes.length} more` : "";
  return safe(`✗ ${nodeCount} × ${step ?? "before the first step"}: ${cause}    ${names}${others}`);
}

function byName(one: Run, other: Run): number {
  return one.nodeName.localeCompare(other.nodeName, "en", { numeric: true });
}

function runText({ nodeName, state, currentStep, waiting }: Run): string {
  const percent = currentStep?.progressPercent == null ? "" : ` ${currentStep.progressPercent} %`;
  return safe(`  ${nodeName}  ${state}  ${currentStep?.name ?? ""}${percent}  ${waiting?.description ?? ""}`.trimEnd());
}
