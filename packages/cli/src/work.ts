/**
 * Verbs: plan, question, request, wait. The request has the hash of the plan that was shown, so that the service does
 * that or refuses; and an idempotency key, so that it is repeated until it is answered and starts work once.
 */
import { setTimeout as pause } from "node:timers/promises";
import { send, sendUntilAnswered } from "./api.ts";
import type { Variables } from "./api.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import { UNSENT, confirm } from "./question.ts";
import { INPUT_FIELDS } from "./requests.ts";
import type { Answers } from "./requests.ts";
import { filterOf, selectorOf } from "./selection.ts";
import type { Selection } from "./selection.ts";
import { findOperation, pages, print, printJson, warn, withInterrupt } from "./session.ts";
import type { Session } from "./session.ts";
import { durationText, plural } from "./text.ts";
import { extraVariables, duration, inputValue, share } from "./values.ts";
import { commandWords, hasMember, inputFlags } from "./verbs.ts";
import type { NodeVerb, Verb } from "./verbs.ts";
import { awaitOperations } from "./wait.ts";

/** Flags of verbs beside those of members of the input. */
export interface VerbFlags extends Variables {
  readonly wait?: boolean;
  readonly timeout?: string;
  readonly failFast?: boolean;
  readonly bestEffort?: boolean;
  readonly allOrNothing?: boolean;
  readonly waves?: string;
  readonly maxFailures?: string;
  readonly pause?: string;
  readonly manual?: boolean;
  readonly extraVars?: readonly string[];
  readonly image?: string;
  readonly hostGroup?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly refs?: readonly string[];
  readonly count?: number;
  readonly path?: readonly string[] | null;
  readonly missing?: readonly string[];
  readonly missingCount?: number;
}

type Started = Answers["deployNodes"]["answer"] & {
  readonly operations?: readonly { readonly id: string; readonly uuid: string }[];
};
type Plan = NonNullable<Started["summary"]>;
type StartVerb = Verb<NodeVerb | "applyCluster" | "restart">;
type InterruptVerb = Verb<"abort" | "stop" | "withdrawAbort" | "releaseHolds">;

/** Data loss of more nodes than these is confirmed with their number. */
const TYPED_FROM = 20;
const REPLANS_MAX = 5;
const PATIENCE_MS = 600_000;
const GRACE_MS = 2_000;

/** The members of a verb's input that flags set. */
export function inputOf(verb: Verb, flags: VerbFlags, argument?: string): Variables {
  const input: Record<string, unknown> = { ...verb.input };
  for (const { member, flag, field } of inputFlags(verb)) {
    const given = flags[member];
    // `--no-…` has the value true unless it is given.
    if (given === undefined || (field.isOn && given === true)) continue;
    input[member] = inputValue(flag, field, given as string | boolean);
  }
  const field = verb.argument === undefined ? undefined : INPUT_FIELDS[verb.mutation]?.[verb.argument];
  if (verb.argument !== undefined && field)
    input[verb.argument] = inputValue(verb.argument.toUpperCase(), field, argument ?? "");
  if (flags.bestEffort) input["acceptance"] = "BEST_EFFORT";
  if (flags.allOrNothing) input["acceptance"] = "ALL_OR_NOTHING";
  if (flags.extraVars) input["variables"] = extraVariables(flags.extraVars);
  if (flags.image !== undefined) input["image"] = { name: flags.image };
  const waves = wavesOf(flags);
  if (waves) input["waves"] = waves;
  for (const needed of verb.needs ?? []) if (!input[needed]) throw usageError(`\`${verb.word}\` needs --${needed}.`);
  return input;
}

function wavesOf({ waves, maxFailures, pause: between, manual }: VerbFlags): object | null {
  if (waves === undefined) {
    if (maxFailures === undefined && between === undefined && !manual) return null;
    throw usageError("--max-failures, --pause and --manual need --waves. Example: --waves 1,10%,100%");
  }
  return {
    sizes: waves.split(",").map((size) => share("--waves", size)),
    ...(maxFailures !== undefined && { maxFailures: share("--max-failures", maxFailures) }),
    ...(between !== undefined && { pauseSeconds: duration("--pause", between) }),
    ...(manual && { manual }),
  };
}

/** Selects nodes, or for verbs on work an operation. */
export async function workSelector(session: Session, words: readonly string[], selection: Selection): Promise<object> {
  const [word] = words;
  const operation = words.length === 1 && word !== undefined ? await findOperation(session, word) : null;
  return operation === null ? selectorOf(selection) : { operationId: operation };
}

/**
 * A verb that starts work. With a key of the user's own, the request may be the repetition of an earlier one: then its
 * answer counts, not a plan that is refused because the work has begun; and it is not bound to a plan of its own, so
 * that it stays the same request.
 */
export async function startWork(
  session: Session,
  verb: StartVerb,
  input: Variables,
  flags: VerbFlags,
): Promise<number> {
  const wait = waitOptions(flags);
  const { idempotencyKey = crypto.randomUUID(), planHash: givenHash } = input;
  const isKeyed = input["idempotencyKey"] !== undefined;
  for (let plans = 1; ; plans += 1) {
    const plan = { input: { ...input, dryRun: true } };
    const planned = (await withInterrupt(endUnsent, () => send(session.server, verb.mutation, plan))).answer as Started;
    if (flags.dryRun) return showPlan(session, verb, planned);
    const isRefused = planned.errors.length > 0;
    if (isRefused && !(isKeyed && flags.yes)) return refused(session, planned);
    const { summary } = planned;
    if (!isRefused && planned.acceptedCount === 0 && summary !== null && summary.unchangedCount > 0) {
      if (session.output === "json") printJson(planned);
      warn(planText(verb.word, summary).join("\n"));
      return EXIT.done;
    }
    const isShown = !isRefused && summary !== null && (verb.asks === true || touchesMachines(summary));
    if (isShown) {
      warn(planText(verb.word, summary).join("\n"));
      const count = summary.erasesDataCount > TYPED_FROM ? { count: summary.erasesDataCount } : {};
      await confirm({ yes: flags.yes === true, ...count });
    }
    const planHash = givenHash ?? (isKeyed ? null : planned.planHash);
    const request = { ...input, idempotencyKey, ...(planHash !== null && { planHash }) };
    const until = Date.now() + Math.min(PATIENCE_MS, (wait.timeoutSeconds ?? Number.POSITIVE_INFINITY) * 1000);
    const answer = (await untilAnsweredOrInterrupted(session, verb, request, until)) as Started;
    const isStale = answer.errors.some(({ code, path }) => code === "STALE_REVISION" && path?.at(-1) === "planHash");
    if (!isStale || givenHash !== undefined || plans === REPLANS_MAX)
      return accepted(session, answer, { flags, isShown });
    warn("The plan has changed, and nothing was done. The new plan:");
  }
}

function endUnsent(): void {
  warn(`\n${UNSENT}`);
  process.exit(EXIT.interrupted);
}

async function untilAnsweredOrInterrupted(
  session: Session,
  verb: StartVerb,
  input: Variables,
  until: number,
): Promise<unknown> {
  const { idempotencyKey, planHash } = input as { readonly idempotencyKey: string; readonly planHash?: string };
  const repeat = `Repeat the command with --yes --idempotency-key ${idempotencyKey}${planHash === undefined ? "" : ` --plan-hash ${planHash}`}`;
  let interrupt = () => {};
  const interrupted = new Promise<void>((resolve) => {
    interrupt = resolve;
  });
  return withInterrupt(interrupt, async () => {
    const request = sendUntilAnswered(session.server, verb.mutation, { input }, until);
    const late = interrupted.then(async () => {
      const answer = await Promise.race([request.catch(() => null), pause(GRACE_MS, null)]);
      const operation = answer?.answer.operation;
      throw new CliError(
        EXIT.interrupted,
        operation
          ? `Operation ${operation.uuid} was accepted, and continues. See: ostler operations watch ${operation.uuid}`
          : `The request was not answered, and may have been accepted. ${repeat} to find out.`,
      );
    });
    try {
      return (await Promise.race([request, late])).answer;
    } catch (error) {
      if (error instanceof CliError && error.isTransient)
        throw new CliError(error.exitCode, `${error.message}\nThe request may have been accepted. ${repeat}.`);
      throw error;
    }
  });
}

export function waitOptions({ timeout, failFast = false }: VerbFlags) {
  return { timeoutSeconds: timeout === undefined ? null : duration("--timeout", timeout), failFast };
}

async function accepted(
  session: Session,
  answer: Started,
  { flags, isShown }: { readonly flags: VerbFlags; readonly isShown: boolean },
): Promise<number> {
  if (answer.errors.length > 0 && !answer.operation && (answer.operations ?? []).length === 0)
    return refused(session, answer);
  const operations = answer.operations ?? (answer.operation ? [answer.operation] : []);
  if (session.output === "json") printJson(answer);
  else for (const { uuid } of operations) print(uuid);
  warnErrors(answer.errors);
  if (!isShown && answer.refusedCount > 0) warn(refusalLines(answer.summary?.refusals ?? []).join("\n"));
  warn(
    `${plural(answer.acceptedCount, "node")} accepted${answer.refusedCount > 0 ? `, ${answer.refusedCount} refused` : ""}.`,
  );
  const isPartial = flags.bestEffort === true && answer.refusedCount > 0;
  const code = flags.wait
    ? await awaitOperations(
        session,
        operations.map(({ uuid }) => uuid),
        waitOptions(flags),
      )
    : EXIT.done;
  return code === EXIT.done && isPartial ? EXIT.failed : code;
}

function refused(session: Session, answer: Started): number {
  if (session.output === "json") printJson(answer);
  const refusals = answer.summary?.refusals ?? [];
  if (refusals.length > 0) warn(refusalLines(refusals).join("\n"));
  warnErrors(othersThan(refusals, answer.errors));
  return EXIT.refused;
}

/** Errors of a request that its refused nodes do not show already. */
function othersThan(refusals: readonly RefusalGroup[], errors: readonly Refusal[]): readonly Refusal[] {
  return errors.filter(({ code }) => !refusals.some((group) => group.code === code));
}

/** Errors of a request, each with the nodes that it is about. */
export function warnErrors(errors: readonly Refusal[]): void {
  for (const { code, message, missing = [], missingCount = 0, refs = [] } of errors) {
    const names = missing.length > 0 ? missing : refs;
    const others = Math.max(0, missingCount - missing.length);
    const listed = names.filter((name) => !message.includes(name));
    warn(`${code}: ${commandWords(message)}`);
    if (listed.length > 0) warn(`  ${listed.join(" ")}${others > 0 ? ` and ${others} more` : ""}`);
  }
}

interface RefusalGroup {
  readonly code: string;
  readonly nodeCount: number;
  readonly message: string;
  readonly examples: readonly { readonly ref: string }[];
}

function refusalLines(refusals: readonly RefusalGroup[]): string[] {
  return refusals.flatMap(({ code, nodeCount, message, examples }) => [
    `  ${nodeCount} ${code}${nodeCount === 1 ? "" : ", the first"}: ${commandWords(message)}`,
    `    ${examples.map(({ ref }) => ref).join(" ")}${nodeCount > examples.length ? ` and ${nodeCount - examples.length} more` : ""}`,
  ]);
}

function touchesMachines({ erasesDataCount, changedParts }: Plan): boolean {
  return erasesDataCount > 0 || changedParts.some(({ part }) => part === "DISKS" || part === "FIRMWARE");
}

function planText(word: string, plan: Plan): string[] {
  const { plannedCount, nodeCount, duration: took, erasesDataCount, changes, changedParts, failureConsequence } = plan;
  const about = took?.expectedSeconds == null ? "" : `   about ${durationText(took.expectedSeconds)}`;
  const erasing = changes.find((one) => one.changes.includes("DISKS"))?.step;
  const firmware = changedParts.find(({ part }) => part === "FIRMWARE")?.nodeCount ?? 0;
  return [
    `${word} ${plannedCount} of ${plural(nodeCount, "node")}${about}`,
    ...plan.reasons.map((group) => `  ${group.nodeCount}  ${group.reason}`),
    ...(plan.unchangedCount > 0 ? [`  ${plan.unchangedCount}  nothing to do`] : []),
    ...hostGroupLines(plan.hostGroups),
    ...(erasesDataCount > 0
      ? [`  erases the data of ${plural(erasesDataCount, "node")}${erasing ? `, from step ${erasing.name} on` : ""}`]
      : erasing
        ? [`  writes the disks, from step ${erasing.name} on`]
        : []),
    ...(firmware > 0 ? [`  changes the firmware of ${plural(firmware, "node")}`] : []),
    ...(failureConsequence === null ? [] : [`  ${failureConsequence} (--on-failure)`]),
    ...refusalLines(plan.refusals),
  ];
}

/** The host groups in the order in which they begin; none if no group waits for another. */
function hostGroupLines(groups: Plan["hostGroups"]): string[] {
  if (groups.every(({ waitsFor }) => waitsFor.length === 0)) return [];
  const isOfOne = new Set(groups.map(({ cluster }) => cluster?.name)).size === 1;
  return groups.map(({ cluster, name, nodeCount, waitsFor }) => {
    const waits = waitsFor.map(
      ({ group, needed, present }) => `${needed} of ${group} are ACTIVE (${present} count already)`,
    );
    const begin = waits.length === 0 ? "at once" : `when ${waits.join(" and ")}`;
    return `  ${isOfOne ? "" : `${cluster?.name} `}${name}: ${plural(nodeCount, "node")}, ${begin}`;
  });
}

function showPlan(session: Session, verb: StartVerb, planned: Started): number {
  if (session.output === "json") printJson(planned, 2);
  else if (planned.summary) {
    print(planText(verb.word, planned.summary).join("\n"));
    if (planned.planHash !== null) print(`plan hash ${planned.planHash}`);
  }
  const refusals = session.output === "json" ? [] : (planned.summary?.refusals ?? []);
  warnErrors(othersThan(refusals, planned.errors));
  return planned.errors.length > 0 ? EXIT.refused : EXIT.done;
}

/** Abort, stop, withdrawal of an abort, release of holds: their forecast is shown first, and an abort asks. */
export async function interruptWork(
  session: Session,
  verb: InterruptVerb,
  input: Variables,
  flags: VerbFlags,
): Promise<number> {
  const wait = waitOptions(flags);
  const { answer: foreseen } = await send(session.server, verb.mutation, { input: { ...input, dryRun: true } });
  // The service would interrupt the work on the known nodes; an unknown name may be a slip in the others too.
  const hasUnknown = foreseen.errors.some(({ code }) => code === "NOT_FOUND");
  const isRefused = hasUnknown || (foreseen.acceptedCount === 0 && foreseen.errors.length > 0);
  if (flags.dryRun || isRefused) {
    if (session.output === "json") printJson(foreseen, 2);
    else warn(forecastText(verb.word, foreseen).join("\n"));
    warnErrors(
      session.output === "json" ? foreseen.errors : othersThan(foreseen.forecast?.refusals ?? [], foreseen.errors),
    );
    return isRefused ? EXIT.refused : EXIT.done;
  }
  warn(forecastText(verb.word, foreseen).join("\n"));
  if (verb.asks) await confirm({ yes: flags.yes === true });
  const { answer } = await send(session.server, verb.mutation, { input });
  if (session.output === "json") printJson(answer);
  warnErrors(answer.errors);
  if (answer.acceptedCount === 0 && answer.errors.length > 0) return EXIT.refused;
  const ids = answer.operations.length > 0 ? answer.operations : answer.operation ? [answer.operation] : [];
  if (session.output !== "json") for (const { uuid } of ids) print(uuid);
  if (!flags.wait) {
    for (const { uuid } of ids) warn(`To see its end: ostler operations watch ${uuid.slice(0, 8)}`);
    return EXIT.done;
  }
  const wantsEnd = verb.mutation === "abort" || verb.mutation === "stop";
  return awaitOperations(
    session,
    ids.map(({ uuid }) => uuid),
    { ...wait, wantsEnd },
  );
}

function forecastText(word: string, { acceptedCount, forecast }: Answers["stop"]["answer"]): string[] {
  return [
    `${word} ${plural(acceptedCount, "run")}`,
    ...(forecast?.effects ?? []).map(
      ({ effect, count, step, endsAs, cutsStep, powersOff, expectedSeconds, changedParts }) =>
        [
          `  ${count} ${effect}`,
          ...(step === null ? [] : [cutsStep ? `cuts step ${step}` : `step ${step}`]),
          ...(endsAs === null ? [] : [`ends ${endsAs}`]),
          ...(expectedSeconds === null ? [] : [`in about ${durationText(expectedSeconds)}`]),
          ...(powersOff ? ["powers off"] : []),
          ...(changedParts.length > 0 ? [`leaves changed: ${changedParts.join(", ").toLowerCase()}`] : []),
        ].join(", "),
    ),
    ...refusalLines(forecast?.refusals ?? []),
  ];
}

export async function changeWaves(
  session: Session,
  verb: Verb<"haltWaves" | "resumeWaves" | "advanceWaves">,
  input: Variables,
  flags: VerbFlags,
): Promise<number> {
  const foreseen = (await send(session.server, verb.mutation, { input: { ...input, dryRun: true } })).answer;
  if (foreseen.forecast) {
    const { activeCount, startingCount, waitingCount, wave } = foreseen.forecast;
    warn(`${verb.word} in wave ${wave}: ${activeCount} active, ${startingCount} start now, ${waitingCount} wait`);
  }
  const answer = flags.dryRun ? foreseen : (await send(session.server, verb.mutation, { input })).answer;
  if (session.output === "json") printJson(answer);
  warnErrors(answer.errors);
  return answer.errors.length > 0 ? EXIT.refused : EXIT.done;
}

/** Flags and fields of nodes, and their deletion: requests that start no work. */
export async function changeNodes(
  session: Session,
  verb: Verb<"setMaintenance" | "clearMaintenance" | "setRetired" | "clearRetired" | "updateNodes" | "deleteNodes">,
  { selection, input }: { readonly selection: Selection; readonly input: Variables },
  flags: VerbFlags,
): Promise<number> {
  const nodes = verb.mutation === "deleteNodes" ? await confirmedIds(session, selection, flags) : selectorOf(selection);
  if (verb.mutation === "deleteNodes" && flags.dryRun) return EXIT.done;
  const terms = hasMember(verb, "dryRun") && flags.dryRun ? { dryRun: true } : {};
  const { answer } = await send(session.server, verb.mutation, { input: { ...input, nodes, ...terms } });
  if (session.output === "json") printJson(answer);
  warnErrors(answer.errors);
  const results = answer.results.flatMap((one) =>
    "error" in one ? [{ ref: one.ref, errors: one.error ? [one.error] : [] }] : [one],
  );
  for (const { ref, errors } of results)
    for (const { code, message } of errors) warn(`  ${ref}  ${code}: ${commandWords(message)}`);
  const count = "count" in answer ? answer.count : answer.changedCount + answer.unchangedCount;
  if (answer.errors.length > 0) return EXIT.refused;
  const verbText = verb.mutation === "deleteNodes" ? "deleted" : flags.dryRun ? "would be changed" : "changed";
  warn(`${plural(count, "node")} ${verbText}.`);
  return results.length > 0 ? EXIT.failed : EXIT.done;
}

/** The IDs of the nodes that were shown: a deletion concerns no other ones. */
async function confirmedIds(session: Session, selection: Selection, flags: VerbFlags): Promise<object> {
  const found: { readonly id: string; readonly name: string }[] = [];
  const filter = filterOf(selection);
  const read = async (after: string | null) =>
    (await send(session.server, "nodeNames", { filter, first: 500, after })).nodes;
  for await (const rows of pages(read)) found.push(...rows);
  const known = new Set(found.map(({ name }) => name.toLowerCase()));
  const missing = selection.kind === "names" ? selection.names.filter((name) => !known.has(name.toLowerCase())) : [];
  if (missing.length > 0)
    throw new CliError(EXIT.refused, `There are no nodes ${missing.join(", ")}. Nothing was deleted.`);
  if (found.length === 0) throw new CliError(EXIT.refused, "The selection has no nodes.");
  const shown = found.slice(0, TYPED_FROM).map(({ name }) => name);
  const others = found.length > shown.length ? ` and ${found.length - shown.length} more` : "";
  warn(`delete ${plural(found.length, "node")}: ${shown.join(" ")}${others}`);
  if (!flags.dryRun) await confirm({ yes: flags.yes === true });
  return { ids: found.map(({ id }) => id) };
}
