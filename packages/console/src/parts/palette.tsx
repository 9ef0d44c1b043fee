/** Ctrl and K: one field that leads to every node, operation, cluster and screen, and to the verbs on the selection. */
import { Autocomplete } from "@base-ui/react/autocomplete";
import { Dialog } from "@base-ui/react/dialog";
import { useMemo, useState } from "react";
import { useLocation } from "wouter";
import { useRequest } from "../data/queries.ts";
import { fleet, running, useStore } from "../data/streams.ts";
import type { NodeRow, OperationRow } from "../data/streams.ts";
import { partOfPath } from "../parameters.ts";
import { SCREENS, clusterPath, nodePath, operationPath } from "../routes.ts";
import { plural, timeText } from "../words/numbers.ts";
import { operationName } from "../words/operations.ts";
import { paletteMatches } from "../words/palette.ts";
import type { PaletteEntry } from "../words/palette.ts";
import { sentenceCase } from "../words/states.ts";
import { VERBS } from "../words/verbs.ts";
import type { Proposal } from "../work/outlook.ts";
import { selection } from "../work/selection.ts";
import { proposalOf } from "../work/verb-bar.tsx";
import type { VerbTarget } from "../work/verb-bar.tsx";
import { Text } from "./text.tsx";
import { useLack } from "./work-button.tsx";

interface PaletteProps {
  readonly onClose: () => void;
  readonly onPropose: (proposal: Proposal) => void;
}

/** Operations that are found by their name and the beginning of their ID, beside those that run. */
const RECENT = 50;
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

export function Palette({ onClose, onPropose }: PaletteProps) {
  const [text, setText] = useState("");
  const [path, navigate] = useLocation();
  const { items: nodes } = useStore(fleet);
  const { items: operations } = useStore(running);
  // Read again each time it opens.
  const [openedAt] = useState(() => Date.now());
  const recent = useRequest("operations", { first: RECENT }, openedAt).data?.operations.nodes;
  const target = useMemo(() => targetOf(path, nodes), [path, nodes]);
  const lack = useLack();
  const verbs = VERBS.filter(({ mutation }) => lack(mutation) === null);
  const found = useMemo(
    () =>
      paletteMatches(text, [
        ...(target ? verbs.map(({ action, name }) => verbEntry(action, `${name} ${target.object}…`)) : []),
        ...SCREENS.map(([to, label]) => ({ kind: "Screen", label, target: to }) as const),
        ...(UUID.test(text.trim()) ? [operationEntry(`Operation ${text.trim()}`, text.trim())] : []),
        ...operationsOf([...(recent ?? []), ...operations.values()]),
        ...clustersOf(nodes.values()),
        ...[...nodes.values()].map(({ name }) => ({ kind: "Node", label: name, target: nodePath(name) }) as const),
      ]),
    // More verbs, or fewer, with another scope.
    [text, target, nodes, operations, recent, verbs.length],
  );

  function choose({ kind, target: to }: PaletteEntry): void {
    onClose();
    const verb = kind === "Verb" ? VERBS.find(({ action }) => action === to) : undefined;
    if (verb && target) onPropose(proposalOf(verb, target));
    else navigate(to);
  }

  return (
    <Dialog.Root open onOpenChange={(isOpen) => isOpen || onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog palette" aria-label="Go to">
          <Autocomplete.Root
            inline
            open
            mode="none"
            autoHighlight="always"
            items={found}
            value={text}
            onValueChange={setText}
            itemToStringValue={(entry: PaletteEntry) => entry.label}
          >
            <Autocomplete.Input
              aria-label="Node, operation, cluster, screen or verb"
              placeholder={
                target ? `Go to, or a verb on ${target.object}` : "Go to a node, operation, cluster or screen"
              }
            />
            <Autocomplete.Empty>{text !== "" && found.length === 0 && "Nothing has this name."}</Autocomplete.Empty>
            <Autocomplete.List className="options">
              {(entry: PaletteEntry) => (
                <Autocomplete.Item
                  key={`${entry.kind} ${entry.target}`}
                  value={entry}
                  className="option"
                  onClick={() => choose(entry)}
                >
                  <Text>{entry.label}</Text> <small className="quiet">{entry.kind}</small>
                </Autocomplete.Item>
              )}
            </Autocomplete.List>
          </Autocomplete.Root>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

const verbEntry = (action: string, label: string): PaletteEntry => ({ kind: "Verb", label, target: action });
const operationEntry = (label: string, uuid: string): PaletteEntry => ({
  kind: "Operation",
  label,
  target: operationPath(uuid),
});

function operationsOf(operations: readonly OperationRow[]): readonly PaletteEntry[] {
  return [...new Map(operations.map((operation) => [operation.uuid, operation])).values()].map((operation) => {
    const { uuid, state, createdAt } = operation;
    const label = `${operationName(operation)} · ${sentenceCase(state).toLowerCase()} · ${timeText(new Date(createdAt), new Date())}`;
    return operationEntry(`${label} · ${uuid.slice(0, 8)}`, uuid);
  });
}

function clustersOf(nodes: Iterable<{ readonly cluster: { readonly name: string } | null }>): readonly PaletteEntry[] {
  const names = new Set<string>();
  for (const { cluster } of nodes) if (cluster) names.add(cluster.name);
  return [...names].toSorted().map((name) => ({ kind: "Cluster", label: name, target: clusterPath(name) }));
}

/** The nodes that verbs are for: the selection, or else the node or the cluster of the page. */
function targetOf(path: string, nodes: ReadonlyMap<string, NodeRow>): VerbTarget | null {
  const selected = [...selection.get()];
  if (selected.length > 0) return { ids: selected, object: plural(selected.length, "selected node") };
  const [, screen, part] = /^\/(nodes|clusters)\/([^/]+)$/.exec(path) ?? [];
  const name = part === undefined ? null : partOfPath(part);
  if (name === null) return null;
  const shown = [...nodes.values()].filter((node) => (screen === "nodes" ? node : node.cluster)?.name === name);
  const ids = shown.map(({ id }) => id);
  return ids.length === 0 ? null : { ids, object: name, ...(screen === "clusters" && { cluster: name }) };
}
