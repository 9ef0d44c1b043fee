/** A running operation in one line. */
import { useState } from "react";
import { Link } from "wouter";
import type { OperationRow } from "../data/streams.ts";
import { operationPath } from "../routes.ts";
import { numberText } from "../words/numbers.ts";
import { interruptRefusal, leftText, operationName, waveText } from "../words/operations.ts";
import type { Proposal } from "../work/outlook.ts";
import { WorkDialog } from "../work/work-dialog.tsx";
import { RunBar } from "./run-bar.tsx";
import { WorkState } from "./state-badge.tsx";
import { Text } from "./text.tsx";
import { WorkButton } from "./work-button.tsx";

interface OperationLineProps {
  readonly operation: OperationRow;
  /** For reading only. */
  readonly isQuiet?: boolean;
}

export function OperationLine({ operation, isQuiet = false }: OperationLineProps) {
  const [proposal, setProposal] = useState<Proposal | null>(null);
  const { id, uuid, state, runCounts, finishedCount, totalCount, failedCount, etaSeconds, rollout } = operation;
  const name = operationName(operation);
  return (
    <div className="operation-line">
      <span className="operation-name">
        {isQuiet ? <Text>{name}</Text> : <Link href={operationPath(uuid)}>{name}</Link>}
      </span>
      <RunBar counts={runCounts} />
      <span className="operation-facts">
        {numberText(finishedCount)}/{numberText(totalCount)}
        {failedCount > 0 && (
          <span className="state" data-family="failed">
            {numberText(failedCount)} failed
          </span>
        )}
        {rollout && <span>{waveText(rollout)}</span>}
        {state !== "RUNNING" && <WorkState state={state} />}
        {etaSeconds !== null && <span className="quiet">{leftText(operation)}</span>}
      </span>
      {!isQuiet && (
        <WorkButton
          mutation="stop"
          refusal={interruptRefusal(operation, "stop")}
          onClick={() => setProposal({ mutation: "stop", input: { work: { operationId: id } }, object: name })}
        >
          Stop…
        </WorkButton>
      )}
      {proposal && (
        <WorkDialog proposal={proposal} version={JSON.stringify(runCounts)} onClose={() => setProposal(null)} />
      )}
    </div>
  );
}
