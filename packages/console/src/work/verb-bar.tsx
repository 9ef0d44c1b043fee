/** The verbs for one node or a selection: the most frequent at once, the others on demand. */
import { useState } from "react";
import { Text } from "../parts/text.tsx";
import { VERBS, WORK } from "../words/verbs.ts";
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
  return first.reason ?? first.remedy ?? "It is refused.";
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
  const buttons = (verbs: readonly Verb[]) =>
    verbs.map((verb) => (
      <VerbButton
        key={verb.action}
        verb={verb}
        refusal={refusalOf(verb, verdicts)}
        onClick={() => setProposal(proposalOf(verb, target))}
      />
    ));
  return (
    <section aria-label={`Verbs on ${target.object}`} className="verb-bar">
      <div className="buttons">{buttons(VERBS.slice(0, FIRST))}</div>
      <details>
        <summary>More verbs</summary>
        <div className="buttons">{buttons(VERBS.slice(FIRST))}</div>
      </details>
      {proposal && <WorkDialog proposal={proposal} onClose={() => setProposal(null)} />}
    </section>
  );
}

interface VerbButtonProps {
  readonly verb: Verb;
  /** Why it is disabled; null if it is not. */
  readonly refusal: string | null;
  readonly onClick: () => void;
}

function VerbButton({ verb: { action, name }, refusal, onClick }: VerbButtonProps) {
  return (
    <span className="with-reason">
      <button
        type="button"
        className={action === "ABORT" || action === "DELETE" ? "danger" : undefined}
        disabled={refusal !== null}
        aria-describedby={refusal === null ? undefined : `why-${action}`}
        onClick={onClick}
      >
        {name}…
      </button>
      {refusal !== null && (
        <small id={`why-${action}`} className="quiet">
          <Text>{refusal}</Text>
        </small>
      )}
    </span>
  );
}
