import { memo, useState } from "react";
import type { FormEvent } from "react";
import type { RowFragment } from "../generated/graphql.ts";
import { codeOf } from "./client.ts";
import { CommissionDialog } from "./commission.tsx";
import { useLiveNodes } from "./live-nodes.ts";

export function App() {
  const { nodes, error, reload, isLive, status } = useLiveNodes();
  const { state, since, why } = status;
  const isUnauthenticated = state === "refused" || codeOf(error) === "UNAUTHENTICATED";
  const rows = nodes.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  /** Of the nodes that were selected when the dialog was opened. */
  const [ids, setIds] = useState<string[]>([]);

  function openDialog(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    setIds(new FormData(event.currentTarget).getAll("id").map(String));
  }

  return (
    <>
      <h1>Fleet</h1>
      <p role="status">{isLive ? "Live" : `Not live since ${since.toLocaleTimeString()}: ${why ?? "connecting"}`}</p>
      {isUnauthenticated && <a href={`/auth/login?return=${location.pathname}`}>Sign in</a>}
      {error && !isUnauthenticated && (
        <p role="alert">
          The nodes cannot be read: {error.message} <button onClick={reload}>Try again</button>
        </p>
      )}
      <form onSubmit={openDialog}>
        <button>Commission selected nodes…</button>
        <table aria-busy={!isLive}>
          <thead>
            <tr>
              {["Name", "State", "Power", "Cluster", "Remark"].map((title) => (
                <th key={title}>{title}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((node) => (
              <Row key={node.id} node={node} />
            ))}
          </tbody>
        </table>
      </form>
      {ids.length > 0 && <CommissionDialog ids={ids} onClose={() => setIds([])} />}
    </>
  );
}

/** Apollo returns the same object for a node that has not changed, so only changed rows are rendered. */
const Row = memo(({ node }: { readonly node: RowFragment }) => (
  <tr>
    <th scope="row">
      <label>
        <input type="checkbox" name="id" value={node.id} /> {node.name}
      </label>
    </th>
    <td>{node.state}</td>
    <td>{node.powerState}</td>
    <td>{node.cluster?.name}</td>
    <td>{node.maintenance?.reason ?? node.lastError?.message}</td>
  </tr>
));
