/** The history of a node, the newest transition first. */
import { useEffect, useState } from "react";
import { Link } from "wouter";
import type { Answers } from "../../requests.ts";
import { request } from "../data/request.ts";
import { useRequest } from "../data/queries.ts";
import { operationPath } from "../routes.ts";
import { sentenceCase } from "../words/states.ts";
import { Problem } from "./notices.tsx";
import { NodeState } from "./state-badge.tsx";
import { Text } from "./text.tsx";
import { Time } from "./time.tsx";

type Page = NonNullable<Answers["lifeLine"]["node"]>["transitions"];
type Transition = Page["nodes"][number];

const PAGE = 20;

export function LifeLine({ name, version }: { readonly name: string; readonly version: number }) {
  const { data, error } = useRequest("lifeLine", { name, last: PAGE }, version);
  const newest = data?.node?.transitions;
  /** Pages before the newest one, as it was when the first of them was read. */
  const [earlier, setEarlier] = useState<readonly Transition[]>([]);
  const [before, setBefore] = useState<string | null>(null);
  const [problem, setProblem] = useState<Error | null>(null);
  useEffect(() => {
    setEarlier([]);
    setBefore(newest?.pageInfo.hasPreviousPage ? newest.pageInfo.startCursor : null);
  }, [newest]);

  async function readEarlier(): Promise<void> {
    try {
      const page = (await request("lifeLine", { name, last: PAGE, before })).node?.transitions;
      setEarlier([...(page?.nodes ?? []), ...earlier]);
      setBefore(page?.pageInfo.hasPreviousPage ? page.pageInfo.startCursor : null);
      setProblem(null);
    } catch (cause) {
      setProblem(cause as Error);
    }
  }

  const all = [...earlier, ...(newest?.nodes ?? [])].toReversed();
  return (
    <section aria-labelledby="life">
      <h2 id="life">Life line</h2>
      {(error ?? problem) && <Problem error={(error ?? problem) as Error} />}
      <ol className="life">
        {all.map(({ id, at, from, to, event, actor, reason, step, operation }) => (
          <li key={id}>
            <Time at={at} /> {to === null ? sentenceCase(event) : <NodeState state={to} />}{" "}
            <span className="quiet">
              {from !== null && from !== to && <>from {sentenceCase(from)} </>}
              {step !== null && <>at {step} </>}
              by <Text>{actor}</Text>
              {operation && (
                <>
                  {" "}
                  for <Link href={operationPath(operation.uuid)}>{sentenceCase(operation.kind).toLowerCase()}</Link>
                </>
              )}
            </span>
            {reason !== null && reason !== "" && (
              <>
                {" "}
                “<Text>{reason}</Text>”
              </>
            )}
          </li>
        ))}
      </ol>
      {before !== null && (
        <button type="button" onClick={() => void readEarlier()}>
          Earlier
        </button>
      )}
    </section>
  );
}
