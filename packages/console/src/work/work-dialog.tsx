/**
 * The dialog of work that needs no further terms: stop, abort, restart, waves, and what the service suggests. It shows
 * what the dry run announces, asks according to the consequence, and sends what was shown.
 *
 * Modes: planning (a dry run is on its way), planned (the request can be sent), sending. A plan that has changed
 * meanwhile, and work that goes on, lead back to planning; what was typed stays.
 */
import { Dialog } from "@base-ui/react/dialog";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useThrottled } from "../data/use-throttled.ts";
import { Problem } from "../parts/notices.tsx";
import { Text } from "../parts/text.tsx";
import { operationPath } from "../routes.ts";
import { numberText, plural, timeText } from "../words/numbers.ts";
import { WORK } from "../words/verbs.ts";
import { announce } from "./announcements.ts";
import { carryOut, foresee } from "./outlook.ts";
import type { Outlook, Proposal } from "./outlook.ts";

interface WorkDialogProps {
  readonly proposal: Proposal;
  /** The state of the work that is interrupted; with another one the forecast is read again. */
  readonly version?: string;
  readonly onClose: () => void;
}

interface Planned {
  readonly outlook: Outlook;
  readonly at: Date;
}

const PAUSE_MS = 1_000;

export function WorkDialog({ proposal, version = "", onClose }: WorkDialogProps) {
  const { mutation, object } = proposal;
  const { name, answers } = WORK[mutation];
  const [planned, setPlanned] = useState<Planned | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isSending, setSending] = useState(false);
  const [hasChanged, setChanged] = useState(false);
  const [plans, setPlans] = useState(0);
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  /** One for the life of the dialog: a double click and a repeated request begin work once. */
  const [key] = useState(() => crypto.randomUUID());
  const isSent = useRef(false);
  const shownVersion = useThrottled(answers === "START" ? "" : version, PAUSE_MS);
  const [, navigate] = useLocation();

  useEffect(() => {
    const end = new AbortController();
    setError(null);
    foresee(proposal, end.signal).then(
      (outlook) => setPlanned({ outlook, at: new Date() }),
      (cause: unknown) => end.signal.aborted || setError(cause as Error),
    );
    return () => end.abort();
  }, [plans, shownVersion]);

  async function send(): Promise<void> {
    if (!planned || isSent.current) return;
    isSent.current = true;
    setSending(true);
    setError(null);
    try {
      const done = await carryOut(proposal, planned.outlook, { key, reason });
      if (done.errors.some(({ code }) => code === "STALE_REVISION")) {
        setChanged(true);
        setPlanned(null);
        setPlans(plans + 1);
      } else if (done.operations.length === 0 && done.errors.length > 0) setPlanned({ outlook: done, at: new Date() });
      else return finish(planned.outlook, done.operations);
    } catch (cause) {
      setError(cause as Error);
    } finally {
      isSent.current = false;
      setSending(false);
    }
  }

  function finish({ sentence }: Outlook, operations: readonly string[]): void {
    if (answers === "INTERRUPT") announce(operations, { verb: name, sentence, at: new Date().toISOString() });
    onClose();
    const [operation] = operations;
    if (operation !== undefined) navigate(operationPath(operation));
  }

  return (
    <Dialog.Root open onOpenChange={(isOpen) => isOpen || isSending || onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>
            {name} <Text>{object}</Text>
          </Dialog.Title>
          {hasChanged && (
            <p role="status">The plan has changed meanwhile, and nothing was done. This is the new one.</p>
          )}
          {planned ? <Announced {...planned} /> : error === null && <p aria-busy="true">Asking what it would do…</p>}
          {error && <Problem error={error} onAgain={() => (planned ? void send() : setPlans(plans + 1))} />}
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void send();
            }}
          >
            <label className="field">
              Reason
              <input value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} />
            </label>
            <Confirmation outlook={planned?.outlook ?? null} typed={typed} onType={setTyped} />
            <div className="buttons">
              <Dialog.Close type="button">Cancel</Dialog.Close>
              <button
                type="submit"
                className={mutation === "abort" ? "danger" : "primary"}
                disabled={isSending || !isReady(planned?.outlook ?? null, typed)}
              >
                {answers === "WAVES" || !planned ? name : `${name} ${plural(planned.outlook.acceptedCount, "node")}`}
              </button>
            </div>
          </form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function isReady(outlook: Outlook | null, typed: string): boolean {
  if (outlook === null || outlook.acceptedCount === 0) return false;
  return outlook.typedCount === null || typed.replaceAll(/[,\s]/g, "") === String(outlook.typedCount);
}

function Announced({ outlook, at }: Planned) {
  return (
    <>
      <p className="sentence">{outlook.sentence}</p>
      {outlook.more.map((sentence) => (
        <p key={sentence}>
          <Text>{sentence}</Text>
        </p>
      ))}
      <ul className="refusals">
        {outlook.refusals.map(({ code, nodeCount, message, remedy, examples }) => (
          <li key={code}>
            <b>{numberText(nodeCount)}</b> refused: <Text>{nodeCount === 1 ? message : remedy}</Text>{" "}
            <small>
              {examples.map(({ ref }) => ref).join(", ")}
              {nodeCount > examples.length && " …"}
            </small>
          </li>
        ))}
        {outlook.errors
          .filter(({ code }) => !outlook.refusals.some((group) => group.code === code))
          .map(({ code, message }) => (
            <li key={`${code} ${message}`}>
              <Text>{message}</Text>
            </li>
          ))}
      </ul>
      <p className="quiet">As of {timeText(at, at)}</p>
    </>
  );
}

interface ConfirmationProps {
  readonly outlook: Outlook | null;
  readonly typed: string;
  readonly onType: (text: string) => void;
}

function Confirmation({ outlook, typed, onType }: ConfirmationProps) {
  if (outlook === null || outlook.typedCount === null || outlook.acceptedCount === 0) return null;
  return (
    <label className="field">
      Type {outlook.typedCount} to confirm: the number of nodes that lose data or power
      <input value={typed} inputMode="numeric" autoComplete="off" onChange={(event) => onType(event.target.value)} />
    </label>
  );
}
