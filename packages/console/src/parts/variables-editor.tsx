/**
 * The variables of a cluster as JSON. A save sends only what was changed, for the revision that was read: if another
 * person has changed the cluster meanwhile, nothing is saved, the differences are named, and the text stays.
 */
import { useState } from "react";
import type { Answers } from "../../requests.ts";
import { request } from "../data/request.ts";
import { changedKeys, variablesPatch } from "../words/clusters.ts";
import { objectOf } from "../words/terms.ts";
import { Problem } from "./notices.tsx";
import { Text } from "./text.tsx";

type Cluster = NonNullable<Answers["clusterDetail"]["cluster"]>;
type Values = Readonly<Record<string, unknown>>;

const textOf = (values: unknown) => JSON.stringify(values, null, 2);

export function VariablesEditor({ cluster }: { readonly cluster: Cluster }) {
  /** The cluster that the text was made of. */
  const [base, setBase] = useState(cluster);
  const [text, setText] = useState(() => textOf(cluster.variables));
  const [problem, setProblem] = useState<Error | null>(null);
  const [refusals, setRefusals] = useState<readonly string[]>([]);
  const [isSending, setSending] = useState(false);
  const before = base.variables as Values;
  const typed = objectOf(text === "" ? "{}" : text);
  const flaw = typeof typed === "string" ? typed : null;
  const changed = typeof typed === "object" && typed !== null ? changedKeys(before, typed as Values) : [];
  const isTouched = flaw !== null || changed.length > 0;
  // A revision that this page or another person saved replaces a text that changes nothing.
  if (cluster.revision !== base.revision && !isTouched) {
    setBase(cluster);
    setText(textOf(cluster.variables));
  }
  const other = cluster.revision === base.revision ? [] : changedKeys(before, cluster.variables as Values);

  async function save(): Promise<void> {
    if (typeof typed !== "object" || typed === null || isSending) return;
    setSending(true);
    setRefusals([]);
    setProblem(null);
    try {
      const variables = variablesPatch(before, typed as Values);
      const input = { cluster: { id: base.id }, variables, ifRevision: base.revision };
      const { errors } = (await request("updateCluster", { input })).answer;
      if (errors.length > 0) setRefusals(errors.map(({ message }) => message));
      // The stream brings the new revision, which then replaces this text.
      else setBase({ ...base, variables: typed });
    } catch (error) {
      setProblem(error as Error);
    } finally {
      setSending(false);
    }
  }

  return (
    <form
      className="variables"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <textarea
        aria-label="Variables as JSON"
        aria-invalid={flaw !== null}
        aria-describedby="variables-state"
        spellCheck={false}
        rows={Math.min(24, text.split("\n").length + 1)}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <p id="variables-state" className={flaw === null ? "quiet" : "failure"}>
        <Text>{flaw ?? (changed.length === 0 ? "Nothing is changed." : `Changed: ${changed.join(", ")}`)}</Text>
      </p>
      {other.length > 0 && isTouched && (
        <div role="status" className="problem">
          <p>
            Another person has changed <Text>{other.join(", ")}</Text> meanwhile. Your text has the earlier values.
          </p>
          <button
            type="button"
            onClick={() => {
              setBase(cluster);
              setRefusals([]);
            }}
          >
            Compare with the new values
          </button>
        </div>
      )}
      {refusals.map((line) => (
        <p key={line} role="alert" className="problem">
          <Text>{line}</Text>
        </p>
      ))}
      {problem && <Problem error={problem} />}
      <div className="buttons">
        <button type="submit" className="primary" disabled={flaw !== null || changed.length === 0 || isSending}>
          Save
        </button>
        <button type="button" disabled={!isTouched} onClick={() => setText(textOf(before))}>
          Discard
        </button>
      </div>
    </form>
  );
}
