/**
 * Deploys the changes of a cluster with up to three requests, each with its plan and its check box: a restart of
 * stopped and failed nodes, a commission of new nodes, and a new installation of active nodes, which is off at first.
 * Requests are sent in this order. One that is refused is planned again, and the ones before it have begun.
 */
import { Dialog } from "@base-ui/react/dialog";
import { useEffect, useRef, useState } from "react";
import { Problem } from "../parts/notices.tsx";
import { Text } from "../parts/text.tsx";
import type { ChangeKind } from "../words/clusters.ts";
import { plural } from "../words/numbers.ts";
import { carryOut, foresee } from "./carry-out.ts";
import type { Outlook, Proposal } from "./outlook.ts";
import { Announced } from "./work-dialog.tsx";

interface ChangesDialogProps {
  readonly cluster: string;
  /** Frozen when the dialog opened. */
  readonly changes: Readonly<Record<ChangeKind, readonly string[]>>;
  readonly onClose: () => void;
}

const KINDS = ["restart", "commissionNodes", "redeployNodes"] as const;
const TITLES: Readonly<Record<ChangeKind, string>> = {
  restart: "Continue stopped and failed nodes",
  commissionNodes: "Commission new nodes",
  redeployNodes: "Install active nodes again",
};

interface Part {
  readonly isOn: boolean;
  readonly outlook: Outlook | null;
  readonly at: Date;
  readonly error: Error | null;
  /** Why the last request was refused. */
  readonly refusal: string | null;
  readonly hasBegun: boolean;
}

function proposalOf(kind: ChangeKind, ids: readonly string[], cluster: string): Proposal {
  const input = { acceptance: "BEST_EFFORT", ...(kind === "redeployNodes" && { reinstall: true }) };
  return { mutation: kind, ids, object: cluster, input };
}

export function ChangesDialog({ cluster, changes, onClose }: ChangesDialogProps) {
  const [frozen] = useState(changes);
  const kinds = KINDS.filter((kind) => frozen[kind].length > 0);
  const [parts, setParts] = useState<Readonly<Partial<Record<ChangeKind, Part>>>>(() =>
    Object.fromEntries(
      kinds.map((kind) => [
        kind,
        { isOn: kind !== "redeployNodes", outlook: null, at: new Date(), error: null, refusal: null, hasBegun: false },
      ]),
    ),
  );
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const [isSending, setSending] = useState(false);
  const [key] = useState(() => crypto.randomUUID());
  const isSent = useRef(false);

  const change = (kind: ChangeKind, next: Partial<Part>) =>
    setParts((before) => {
      const part = before[kind];
      return part ? { ...before, [kind]: { ...part, ...next } } : before;
    });

  async function plan(kind: ChangeKind, signal?: AbortSignal): Promise<void> {
    try {
      const outlook = await foresee(proposalOf(kind, frozen[kind], cluster), {}, signal);
      change(kind, { outlook, at: new Date(), error: null });
    } catch (error) {
      if (!signal?.aborted) change(kind, { error: error as Error });
    }
  }

  useEffect(() => {
    const end = new AbortController();
    for (const kind of kinds) void plan(kind, end.signal);
    return () => end.abort();
  }, []);

  const chosen = kinds.filter((kind) => parts[kind]?.isOn && !parts[kind].hasBegun);
  const count = chosen.reduce((sum, kind) => sum + (parts[kind]?.outlook?.acceptedCount ?? 0), 0);
  const losing = chosen.reduce((sum, kind) => sum + (parts[kind]?.outlook?.typedCount ?? 0), 0);
  const isReady =
    chosen.length > 0 &&
    chosen.every((kind) => parts[kind]?.outlook?.isPossible) &&
    (losing === 0 || typed.replaceAll(/[,\s]/g, "") === String(losing));

  async function send(): Promise<void> {
    if (!isReady || isSent.current) return;
    isSent.current = true;
    setSending(true);
    let areAllBegun = true;
    for (const kind of chosen) {
      const outlook = parts[kind]?.outlook;
      if (!outlook) continue;
      try {
        const proposal = proposalOf(kind, frozen[kind], cluster);
        const done = await carryOut(proposal, outlook, { terms: {}, key: `${key} ${kind}`, reason });
        if (done.operations.length > 0) {
          change(kind, { hasBegun: true, refusal: null });
          continue;
        }
        change(kind, { outlook: null, refusal: done.errors.map(({ message }) => message).join(" ") });
        await plan(kind);
      } catch (error) {
        change(kind, { error: error as Error });
      }
      areAllBegun = false;
      break;
    }
    isSent.current = false;
    setSending(false);
    if (areAllBegun) onClose();
  }

  return (
    <Dialog.Root open onOpenChange={(isOpen) => isOpen || isSending || onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>
            Deploy changes of <Text>{cluster}</Text>
          </Dialog.Title>
          {kinds.length === 0 && <p>Every node of the cluster has work now, or the cluster has no nodes.</p>}
          <form
            onKeyDown={(event) => event.key === "Enter" && event.repeat && event.preventDefault()}
            onSubmit={(event) => {
              event.preventDefault();
              void send();
            }}
          >
            {kinds.map((kind) => {
              const part = parts[kind];
              return (
                part && (
                  <fieldset key={kind} className="change">
                    <legend>
                      <label className="check">
                        <input
                          type="checkbox"
                          checked={part.isOn}
                          disabled={part.hasBegun}
                          onChange={(event) => change(kind, { isOn: event.target.checked })}
                        />{" "}
                        {TITLES[kind]} ({frozen[kind].length.toLocaleString("en")})
                      </label>
                    </legend>
                    {part.hasBegun && <p className="well">Begun</p>}
                    {part.refusal !== null && (
                      <p role="status" className="problem">
                        Nothing was done: <Text>{part.refusal}</Text>
                      </p>
                    )}
                    {part.outlook && !part.hasBegun && (
                      <Announced outlook={part.outlook} at={part.at} isCurrent isPlannable />
                    )}
                    {part.error && <Problem error={part.error} onAgain={() => void plan(kind)} />}
                  </fieldset>
                )
              );
            })}
            <label className="field">
              Reason
              <input value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} />
            </label>
            {losing > 0 && (
              <label className="field">
                Type {losing} to confirm: the number of nodes that lose data
                <input
                  value={typed}
                  inputMode="numeric"
                  autoComplete="off"
                  onChange={(event) => setTyped(event.target.value)}
                />
              </label>
            )}
            <div className="buttons">
              <Dialog.Close type="button">Cancel</Dialog.Close>
              <button type="submit" className="primary" disabled={isSending || !isReady}>
                Deploy changes on {plural(count, "node")}
              </button>
            </div>
          </form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
