/**
 * The site's policy: limits, automatic cleaning, and the word on single steps. A change is checked as a whole against the
 * drivers that are loaded, and concerns what is planned from then on; plans that are stored stay as they are. Limits
 * alone concern work that is there already, so whoever keeps the turns is told of a change of them.
 */
import type { Refusal } from "../../errors.ts";
import { INTERFACES, stepsOf } from "../../drivers/registry.ts";
import type { AnyDriver, AnyStep, Registry } from "../../drivers/registry.ts";
import type { SitePolicy, StepPolicy } from "../../store/records.ts";
import { changeSite, lockSite } from "../../store/site.ts";
import { isSame } from "../input/edits.ts";
import { LIMITED_PHASES } from "../scheduling/capacity-limits.ts";
import { checkArgs, issueText } from "../plans/plan.ts";
import type { Caller, Transact } from "../transaction.ts";

/** A change of the policy. An absent member stays, null takes it away. */
export interface SiteChange {
  readonly ifRevision?: number | undefined;
  /** All of them. */
  readonly phaseLimits?: readonly { readonly phase: string; readonly limit: number }[] | null | undefined;
  readonly controllerLimit?: number | null | undefined;
  readonly automaticCleaning?: boolean | null | undefined;
  readonly correctPower?: boolean | null | undefined;
  /** All of them. */
  readonly steps?: readonly StepWord[] | null | undefined;
}

/** What a change says of one step. */
export interface StepWord {
  readonly step: string;
  readonly driver?: string | null | undefined;
  readonly priority?: number | null | undefined;
  readonly forbidden?: boolean | null | undefined;
}

export type SiteEdited = { readonly done: boolean; readonly refusals: readonly Refusal[] };

export interface SiteParts {
  readonly transact: Transact;
  readonly registry: Registry;
  /** Called after the commit of a change of limits: waiting runs may have their turn now. */
  readonly limitsChanged: () => void;
}

const PRIORITY_MAX = 1_000_000;

export async function updateSite(
  { transact, registry, limitsChanged }: SiteParts,
  caller: Caller,
  change: SiteChange,
): Promise<SiteEdited> {
  const flaws = [...limitFlaws(change), ...(await stepFlaws(registry, change.steps ?? []))];
  if (flaws.length > 0) return { done: false, refusals: flaws };
  return transact(async (transaction) => {
    const site = await lockSite(transaction.tx);
    if (change.ifRevision !== undefined && change.ifRevision !== site.revision) {
      return {
        done: false,
        refusals: [
          {
            code: "STALE_REVISION",
            message: `The site's policy is at revision ${site.revision}, not ${change.ifRevision}; read it again and repeat the change.`,
            path: ["input", "ifRevision"],
          },
        ],
      };
    }
    const policy = changed(site.policy, change);
    if (!isSame(policy, site.policy)) await changeSite(transaction.tx, policy, caller.actor);
    if (change.phaseLimits !== undefined || change.controllerLimit !== undefined)
      transaction.afterCommit(limitsChanged);
    return { done: true, refusals: [] };
  });
}

/** The policy with the change in it. */
function changed(policy: SitePolicy, change: SiteChange): SitePolicy {
  const { phaseLimits, controllerLimit, automaticCleaning, correctPower, steps } = change;
  const next = {
    phaseLimits: phaseLimits ? Object.fromEntries(phaseLimits.map(({ phase, limit }) => [phase, limit])) : phaseLimits,
    controllerLimit,
    automaticCleaning,
    correctPower,
    steps: steps ? steps.map(wordOf) : steps,
  };
  const said = Object.entries({
    ...policy,
    ...Object.fromEntries(Object.entries(next).filter(([, value]) => value !== undefined)),
  });
  return Object.fromEntries(said.filter(([, value]) => value !== null));
}

function wordOf({ step, driver, priority, forbidden }: StepWord): StepPolicy {
  return {
    step,
    ...(driver != null && { driver }),
    ...(priority != null && { priority }),
    ...(forbidden != null && { forbidden }),
  };
}

// ---- limits

function limitFlaws({ phaseLimits, controllerLimit }: SiteChange): Refusal[] {
  const invalid = (path: readonly string[], message: string): Refusal => ({
    code: "INVALID_INPUT",
    message,
    path: ["input", ...path],
  });
  const isLimit = (limit: number) => Number.isInteger(limit) && limit >= 1;
  const ofPhases = (phaseLimits ?? []).flatMap(({ phase, limit }, index, all) => {
    const path = ["phaseLimits", String(index)];
    return [
      ...((LIMITED_PHASES as readonly string[]).includes(phase)
        ? []
        : [
            invalid(
              [...path, "phase"],
              `Runs in the phase ${phase} have no limit; those in ${LIMITED_PHASES.join(", ")} may have one.`,
            ),
          ]),
      ...(all.findIndex((one) => one.phase === phase) < index
        ? [invalid([...path, "phase"], `The phase ${phase} is given twice.`)]
        : []),
      ...(isLimit(limit)
        ? []
        : [
            invalid(
              [...path, "limit"],
              `The limit of ${phase} is a whole number of runs, 1 or more; leave the phase out for no limit.`,
            ),
          ]),
    ];
  });
  const ofController =
    controllerLimit == null || isLimit(controllerLimit)
      ? []
      : [
          invalid(
            ["controllerLimit"],
            "The limit of a management controller is a whole number of runs, 1 or more; null is no limit.",
          ),
        ];
  return [...ofPhases, ...ofController];
}

// ---- steps

interface Offer {
  readonly driver: AnyDriver;
  readonly label: string;
  readonly step: AnyStep;
}

async function stepFlaws(registry: Registry, words: readonly StepWord[]): Promise<Refusal[]> {
  const offers = registry.drivers.flatMap((driver) =>
    INTERFACES.flatMap((name) =>
      (stepsOf(driver, name)?.steps ?? []).map((step): Offer => ({ driver, label: `${name}.${step.name}`, step })),
    ),
  );
  const flaws = await Promise.all(words.map((word, index) => wordFlaws(registry, offers, words, word, index)));
  return flaws.flat();
}

async function wordFlaws(
  registry: Registry,
  offers: readonly Offer[],
  words: readonly StepWord[],
  word: StepWord,
  index: number,
): Promise<Refusal[]> {
  const { step: label, driver, priority, forbidden } = word;
  const invalid = (field: string, message: string): Refusal => ({
    code: "INVALID_INPUT",
    message,
    path: ["input", "steps", String(index), field],
  });
  const flaws: Refusal[] = [];
  if (driver != null && !registry.get(driver))
    flaws.push(
      invalid(
        "driver",
        `Driver ${driver} is not loaded; loaded are ${registry.drivers.map(({ name }) => name).join(", ") || "none"}.`,
      ),
    );
  else
    flaws.push(
      ...labelFlaws(
        offers.filter((one) => driver == null || one.driver.name === driver),
        label,
        driver,
      ).map((message) => invalid("step", message)),
    );
  if (words.findIndex((one) => one.step === label && (one.driver ?? null) === (driver ?? null)) < index)
    flaws.push(
      invalid("step", `The step ${label} of ${driver == null ? "every driver" : `driver ${driver}`} is given twice.`),
    );
  if (priority == null && forbidden == null)
    flaws.push(invalid("step", `Nothing is said of the step ${label}; give it a priority, or forbid it.`));
  if (priority != null && !(Number.isInteger(priority) && priority >= 0 && priority <= PRIORITY_MAX))
    flaws.push(
      invalid("priority", `The priority of ${label} is a whole number from 0 to ${PRIORITY_MAX}; 0 switches it off.`),
    );
  else if (priority != null && priority > 0)
    flaws.push(...(await argumentFlaws(offers, words, word)).map((message) => invalid("priority", message)));
  return flaws;
}

function labelFlaws(offers: readonly Offer[], label: string, driver: string | null | undefined): string[] {
  if (offers.some((one) => one.label === label)) return [];
  const known = [...new Set(offers.map((one) => one.label))].join(", ") || "none";
  const form = /^[^.]+\.[^.]+$/.test(label) ? "" : " A step is named interface.name.";
  return [
    `${driver == null ? "No loaded driver offers" : `Driver ${driver} does not offer`} a step ${label}; the steps there are: ${known}.${form}`,
  ];
}

/** A step that cannot run without arguments cannot run by itself, whatever its priority. */
async function argumentFlaws(
  offers: readonly Offer[],
  words: readonly StepWord[],
  { step: label, driver }: StepWord,
): Promise<string[]> {
  const hasOwnWord = (name: string) =>
    words.some((one) => one.step === label && one.driver === name && one.priority != null);
  const concerned = offers.filter(
    (one) => one.label === label && (driver == null ? !hasOwnWord(one.driver.name) : one.driver.name === driver),
  );
  const checked = await Promise.all(concerned.map(async (one) => ({ ...one, verdict: await checkArgs(one.step, {}) })));
  return checked.flatMap(({ driver: { name }, verdict }) =>
    "issues" in verdict
      ? [
          `The step ${label} of driver ${name} cannot run by itself: it needs arguments (${verdict.issues.map(issueText).join("; ")}). Ask for it by name, in a list of steps or a runbook.`,
        ]
      : [],
  );
}
