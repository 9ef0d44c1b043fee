/** Ended and running operations, the newest first, each of which opens to its steps. */
import { useState } from "react";
import { Link } from "wouter";
import { useRequest } from "../data/queries.ts";
import type { OperationRow } from "../data/streams.ts";
import { operationPath } from "../routes.ts";
import { stepLines } from "../words/clusters.ts";
import { errorText } from "../words/nodes.ts";
import { durationText, numberText } from "../words/numbers.ts";
import { operationName } from "../words/operations.ts";
import { Problem } from "./notices.tsx";
import { RunBar } from "./run-bar.tsx";
import { WorkState } from "./state-badge.tsx";
import { Text } from "./text.tsx";
import { Time } from "./time.tsx";
import type { Pages } from "./use-pages.ts";

export function OperationHistory({ pages }: { readonly pages: Pages<OperationRow> }) {
  const { items, next, isRead, error, more } = pages;
  return (
    <>
      {error && <Problem error={error} />}
      {isRead && items.length === 0 && <p className="quiet">No operations.</p>}
      <ol className="history">
        {items.map((operation) => (
          <li key={operation.id}>
            <Operation operation={operation} />
          </li>
        ))}
      </ol>
      {next && (
        <button type="button" onClick={more}>
          Earlier
        </button>
      )}
    </>
  );
}

function Operation({ operation }: { readonly operation: OperationRow }) {
  const [isOpen, setOpen] = useState(false);
  const { uuid, state, requestedBy, createdAt, finishedAt, reason, runCounts, firstFailure } = operation;
  const seconds = finishedAt === null ? null : (Date.parse(finishedAt) - Date.parse(createdAt)) / 1_000;
  return (
    <>
      <div className="history-line">
        <Link href={operationPath(uuid)}>
          <Text>{operationName(operation)}</Text>
        </Link>
        <WorkState state={state} />
        <span className="quiet">
          <Time at={createdAt} /> by <Text>{requestedBy}</Text>
          {seconds !== null && `, ${durationText(seconds)}`}
          {reason !== null && (
            <>
              {" "}
              “<Text>{reason}</Text>”
            </>
          )}
        </span>
        <RunBar counts={runCounts} />
      </div>
      {firstFailure && (
        <p className="failure">
          <Text>{errorText(firstFailure)}</Text>
        </p>
      )}
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Steps</summary>
        {isOpen && <Steps uuid={uuid} version={`${state} ${operation.finishedCount}`} />}
      </details>
    </>
  );
}

function Steps({ uuid, version }: { readonly uuid: string; readonly version: string }) {
  const { data, error } = useRequest("operationSteps", { id: uuid }, version);
  const runs = data?.operation?.runs;
  if (error) return <Problem error={error} />;
  if (!runs) return <p aria-busy="true">Reading…</p>;
  const lines = stepLines(runs.nodes);
  return (
    <div className="scroll">
      <table>
        <thead>
          <tr>
            {["Step", "Start", "Duration", "Result"].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map(({ name, title, startedAt, seconds, counts }, index) => (
            <tr key={`${index} ${name}`}>
              <th scope="row">
                <Text>{title}</Text> <small className="quiet">{name}</small>
              </th>
              <td>{startedAt !== null && <Time at={startedAt} />}</td>
              <td>{seconds !== null && durationText(seconds)}</td>
              <td>
                {counts.map(({ state, count }) => (
                  <span key={state}>
                    <WorkState state={state} /> {numberText(count)}{" "}
                  </span>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {runs.pageInfo.hasNextPage && <p className="quiet">Of the first {numberText(runs.nodes.length)} nodes.</p>}
    </div>
  );
}
