/** The verbs for one node or a selection: the most frequent at once, the others on demand. */
import { useId, useState } from "react";
import { WorkButton, useLack } from "../parts/work-button.tsx";
import { VERBS, WORK, inWordsOfPage } from "../words/verbs.ts";
import type { Verb } from "../words/verbs.ts";
import { selectionOf } from "./outlook.ts";
import type { Proposal } from "./outlook.ts";
import { WorkDialog } from "./work-dialog.tsx";

/** The verdict of the service on an action for one node. */
export interface Verdict {
  readonly action: string;
  readonly allowed: boolean;
  readonly reason: string | null;
  readonly remedy: string | null;
}

/** The nodes that verbs are for. */
export interface VerbTarget {
  /** A frozen list of global IDs. */
  readonly ids: readonly string[];
  /** As in `Deploy 300 nodes`. */
  readonly object: string;
  /** Name of a cluster: work is then requested for it, and not for its nodes. */
  readonly cluster?: string;
}

interface VerbBarProps {
  readonly target: VerbTarget;
  /** For one node; null if only the plan says which nodes accept a verb. */
  readonly verdicts: readonly Verdict[] | null;
}

/** Number of verbs that are shown at once. */
const FIRST = 6;

/** One of several verdicts is enough: power has one for each of its actions. */
function refusalOf({ action }: Verb, verdicts: readonly Verdict[] | null): string | null {
  const found = verdicts?.filter((verdict) => verdict.action === action) ?? [];
  const [first] = found;
  if (!first || found.some(({ allowed }) => allowed)) return null;
  return inWordsOfPage(first.reason ?? first.remedy ?? "It is refused.");
}

export function proposalOf({ mutation, input = {} }: Verb, { ids, object, cluster }: VerbTarget): Proposal {
  const { answers } = WORK[mutation];
  const isPlanned = answers !== "MARK" || mutation === "updateNodes";
  const whole = { ...input, ...(isPlanned && { acceptance: "BEST_EFFORT" }) };
  return cluster === undefined || answers === "MARK"
    ? { mutation, object, ids, input: whole }
    : { mutation, object, input: { ...whole, ...selectionOf(mutation, { cluster: { name: cluster } }) } };
}

export function VerbBar({ target, verdicts }: VerbBarProps) {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const id = useId();
  const lack = useLack();
  const [first, more] = [VERBS.slice(0, FIRST), VERBS.slice(FIRST)];
  const lacksOf = (verbs: readonly Verb[]) => [...new Set(verbs.flatMap(({ mutation }) => lack(mutation) ?? []))];
  const idOf = (reason: string) => `${id}-${reason.replaceAll(/\W/g, "")}`;
  const buttons = (verbs: readonly Verb[]) => (
    <div className="buttons">
      {verbs.map((verb) => {
        const { action, mutation, name } = verb;
        const reason = lack(mutation);
        return (
          <WorkButton
            key={action}
            mutation={mutation}
            refusal={refusalOf(verb, verdicts)}
            reasonId={reason === null ? undefined : idOf(reason)}
            isDangerous={action === "ABORT" || action === "DELETE"}
            onClick={() => setProposal(proposalOf(verb, target))}
          >
            {name}…
          </WorkButton>
        );
      })}
    </div>
  );
  const reasons = (lacks: readonly string[]) =>
    lacks.map((reason) => (
      <small key={reason} id={idOf(reason)} className="quiet line">
        {reason}
      </small>
    ));
  return (
    <section aria-label={`Verbs on ${target.object}`} className="verb-bar">
      {buttons(first)}
      {reasons(lacksOf(first))}
      <details>
        <summary>More verbs</summary>
        {buttons(more)}
        {reasons(lacksOf(more).filter((reason) => !lacksOf(first).includes(reason)))}
      </details>
      {proposal && <WorkDialog proposal={proposal} onClose={() => setProposal(null)} />}
    </section>
  );
}
