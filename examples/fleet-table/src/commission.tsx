/** Shows what a commission of the selected nodes would do, and begins exactly that. */
import { useMutation } from "@apollo/client/react";
import { useEffect, useState } from "react";
import { CommissionDocument } from "../generated/graphql.ts";
import type { CommissionNodesInput } from "../generated/graphql.ts";

export function CommissionDialog({ ids, onClose }: { readonly ids: string[]; readonly onClose: () => void }) {
  const [commission, { data, error, loading }] = useMutation(CommissionDocument);
  const { planHash, acceptedCount, operation, summary, errors = [] } = data?.commissionNodes ?? {};
  /** One for each dialog: a repeated request begins nothing twice. */
  const [idempotencyKey] = useState(() => crypto.randomUUID());

  // BEST_EFFORT: nodes that cannot be commissioned are left out. A failure is in `error`.
  const send = (rest: Partial<CommissionNodesInput>) =>
    void commission({ variables: { input: { nodes: { ids }, acceptance: "BEST_EFFORT", ...rest } } }).catch(() => {});
  const plan = () => send({ dryRun: true });
  useEffect(plan, []);

  const effect = `${acceptedCount} of ${ids.length} nodes, ${summary?.erasesDataCount} of which lose their data.`;
  return (
    <dialog ref={(dialog) => dialog?.showModal()} onClose={onClose} aria-label="Commission">
      <p role="status">
        {loading && "Please wait…"}
        {planHash && `Commission ${operation ? "begun" : "planned"}: ${effect} ${summary?.failureConsequence}`}
      </p>
      <div role="alert">
        {error && <p>The request failed: {error.message}</p>}
        {(summary?.refusals ?? errors).map(({ count, message }) => (
          <p key={message}>{`Refused (${count}): ${message}`}</p>
        ))}
      </div>
      <button onClick={onClose}>Close</button>
      {!loading && !planHash && <button onClick={plan}>Plan again</button>}
      {!operation && planHash && (
        <button onClick={() => send({ planHash, idempotencyKey })}>Commission {acceptedCount} nodes</button>
      )}
    </dialog>
  );
}
