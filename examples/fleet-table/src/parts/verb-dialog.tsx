/**
 * Asks the service what a verb would do to the selected nodes, and begins it as it was shown: the request has the ids
 * and the hash of the plan, so another plan is refused and not executed.
 */
import { useEffect, useRef, useState } from "react";
import { useClient } from "urql";
import type { AnswerFragment } from "../api/generated/graphql.ts";
import type { Verb, VerbInput } from "../fleet/verbs.ts";

interface VerbDialogProps {
  readonly verb: Verb;
  /** Ids of the nodes, as they were when the dialog was opened. */
  readonly ids: readonly string[];
  readonly onBegun: (operation: string) => void;
  readonly onClose: () => void;
}

const numberOf = (count: number) => `${count.toLocaleString("en")} ${count === 1 ? "node" : "nodes"}`;

export function VerbDialog({ verb, ids, onBegun, onClose }: VerbDialogProps) {
  const client = useClient();
  const dialog = useRef<HTMLDialogElement>(null);
  const [plan, setPlan] = useState<AnswerFragment | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isSending, setSending] = useState(false);
  /** Made once for each dialog: a double click and a repeated request begin nothing twice. */
  const [idempotencyKey] = useState(() => crypto.randomUUID());
  const [planAgain, setPlanAgain] = useState(0);

  const send = (input: Partial<VerbInput>) =>
    client
      .mutation(verb.document, { input: { nodes: { ids: [...ids] }, acceptance: "BEST_EFFORT", ...input } })
      .toPromise();

  useEffect(() => {
    dialog.current?.showModal();
  }, []);

  useEffect(() => {
    let isCurrent = true;
    setPlan(null);
    void send({ dryRun: true }).then(({ data, error }) => {
      if (!isCurrent) return;
      setPlan(data?.answer ?? null);
      if (error) setProblem(error.message);
    });
    return () => {
      isCurrent = false;
    };
  }, [planAgain]);

  async function begin() {
    if (!plan) return;
    setSending(true);
    const { data, error } = await send({ planHash: plan.planHash, idempotencyKey });
    setSending(false);
    if (data?.answer.operation) return onBegun(data.answer.operation.id);
    setProblem(error?.message ?? data?.answer.errors.map(({ message }) => message).join(" ") ?? "Nothing was begun.");
    if (data?.answer.errors.some(({ code }) => code === "STALE_REVISION")) setPlanAgain((count) => count + 1);
  }

  return (
    <dialog ref={dialog} className="verb" onClose={onClose} aria-label={verb.name}>
      <h2>
        {verb.name} {numberOf(ids.length)}
      </h2>
      <p>{verb.effect}</p>
      {plan ? <PlanSummary plan={plan} /> : <p aria-busy="true">{problem === null ? "Planning…" : ""}</p>}
      {problem !== null && <p role="alert">{problem}</p>}
      <div className="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
        <button
          type="button"
          className="primary"
          disabled={!plan || plan.acceptedCount === 0 || isSending}
          onClick={() => void begin()}
        >
          {verb.name} {plan ? numberOf(plan.acceptedCount) : ""}
        </button>
      </div>
    </dialog>
  );
}

function PlanSummary({ plan }: { readonly plan: AnswerFragment }) {
  return (
    <>
      <p>
        <b>{numberOf(plan.acceptedCount)}</b> will do it.{" "}
        {plan.refusedCount > 0 && `${numberOf(plan.refusedCount)} will be left out:`}
      </p>
      {plan.errors.length > 0 && (
        <ul className="refusals">
          {plan.errors.map(({ code, message, count, refs }) => (
            <li key={`${code} ${message}`}>
              <b>{count.toLocaleString("en")}</b> {message}
              {refs.length > 1 && <small> {refs.join(", ")}</small>}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
