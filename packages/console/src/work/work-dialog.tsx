/**
 * The dialog of work, for one node, a selection or a cluster. It shows what the dry run announces for the terms as they
 * are typed, asks according to the consequence, and sends what was shown.
 *
 * Modes: planning (a dry run is on its way; the earlier plan stays, but cannot be sent), planned (the request can be
 * sent), sending. A request that is refused, with what differs, and work that goes on lead back to planning; what was
 * typed stays.
 */
import { Dialog } from "@base-ui/react/dialog";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { KeyboardEvent } from "react";
import { useLocation } from "wouter";
import { RequestError } from "../data/request.ts";
import { signedOut } from "../data/session.ts";
import { fleet, useStore } from "../data/streams.ts";
import { useThrottled } from "../data/use-throttled.ts";
import { Problem } from "../parts/notices.tsx";
import { SignInBanner } from "../parts/sign-in.tsx";
import { Text } from "../parts/text.tsx";
import { useLack } from "../parts/work-button.tsx";
import { operationPath } from "../routes.ts";
import { numberText, plural, timeText } from "../words/numbers.ts";
import { planDifferences } from "../words/plans.ts";
import { sentenceCase } from "../words/states.ts";
import { NO_TERMS, readTerms } from "../words/terms.ts";
import { inWordsOfPage, workName, workOf } from "../words/verbs.ts";
import { AbortModes } from "./abort-modes.tsx";
import { announce, unseen } from "./announcements.ts";
import { carryOut, foresee } from "./carry-out.ts";
import { statesOf } from "./outlook.ts";
import type { Outlook, Proposal } from "./outlook.ts";
import { TermsFields } from "./terms-fields.tsx";

interface WorkDialogProps {
  readonly proposal: Proposal;
  /** Of an operation, the state of the work that is interrupted; with another one the forecast is read again. */
  readonly version?: string;
  readonly onClose: () => void;
}

interface Planned {
  readonly outlook: Outlook;
  readonly at: Date;
  /** The terms that it is of, as JSON. */
  readonly terms: string;
}

/** While a person types terms, no plan is asked for. */
const TYPING_MS = 300;
const PAUSE_MS = 1_000;
/** A plan that the service could not make is asked for again, after pauses that double. */
const AGAIN_MS = 5_000;

export function WorkDialog({ proposal, version = "", onClose }: WorkDialogProps) {
  const { mutation, object, input } = proposal;
  const { answers, terms: known = [], takesNoReason = false, ...work } = workOf(mutation);
  const name = workName(mutation, input);
  const [terms, setTerms] = useState(NO_TERMS);
  const needsReason = work.needsReason === true || terms.mode === "FORCE";
  const [planned, setPlanned] = useState<Planned | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isSending, setSending] = useState(false);
  /** Why the last request was refused, and what differs in the plan since. */
  const [refusal, setRefusal] = useState<readonly string[]>([]);
  const [plans, setPlans] = useState(0);
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  /** One for the life of the dialog: a double click and a repeated request begin work once. */
  const [key] = useState(() => crypto.randomUUID());
  const isSent = useRef(false);
  const isDone = useRef(false);
  const isShown = useRef(true);
  const refused = useRef<Outlook | null>(null);
  const { items } = useStore(fleet);
  const lack = useLack()(mutation);
  const isSignedOut = useSyncExternalStore(signedOut.subscribe, signedOut.get) !== null;
  const states = useMemo(() => statesOf(proposal, items.values()), [proposal, items]);
  const shownVersion = useThrottled(answers === "START" ? "" : version + states, PAUSE_MS);
  const [, navigate] = useLocation();
  const { input: read, flaws } = readTerms(terms);
  const content = JSON.stringify(read);
  const missing = missingTerm(proposal, read);
  const isPlannable = Object.keys(flaws).length === 0 && missing === null;

  useEffect(() => {
    if (!isPlannable || isSignedOut) return;
    const end = new AbortController();
    const plan = async () => {
      try {
        const outlook = await foresee(proposal, JSON.parse(content) as typeof read, end.signal);
        const before = refused.current?.plan;
        refused.current = null;
        if (before && outlook.plan) {
          const differences = planDifferences(before, outlook.plan);
          setRefusal((lines) => [...lines, ...differences]);
        }
        setPlanned({ outlook, at: new Date(), terms: content });
        setError(null);
      } catch (cause) {
        if (end.signal.aborted) return;
        setError(cause as Error);
        setPlanned((last) => last && { ...last, terms: "" });
        if (cause instanceof RequestError && cause.isPassing) timer = setTimeout(() => void plan(), pause);
        pause *= 2;
      }
    };
    let pause = AGAIN_MS;
    let timer = setTimeout(() => void plan(), planned === null ? 0 : TYPING_MS);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [plans, content, isPlannable, shownVersion, isSignedOut, lack]);

  // The button that led here is disabled as soon as the work has begun, and would lose the focus.
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
      if (isDone.current) queueMicrotask(() => document.querySelector("main")?.focus({ preventScroll: true }));
    };
  }, []);

  const isCurrent = isPlannable && planned?.terms === content;
  const outlook = planned?.outlook ?? null;

  async function send(): Promise<void> {
    if (!planned || !isCurrent || !isReady(planned.outlook, typed) || isSent.current) return;
    isSent.current = true;
    setSending(true);
    setError(null);
    setRefusal([]);
    try {
      const done = await carryOut(proposal, planned.outlook, { terms: read, key, reason });
      if (done.operations.length > 0 || done.errors.length === 0) return finish(planned, done.operations);
      const messages = done.errors.map(({ message }) => inWordsOfPage(message));
      if (!isShown.current) return unseen.set(`${name} ${object}: nothing was done. ${messages.join(" ")}`);
      refused.current = planned.outlook;
      setRefusal(messages);
      setPlanned({ ...planned, terms: "" });
      setPlans(plans + 1);
    } catch (cause) {
      if (!isShown.current) unseen.set(`${name} ${object}: ${(cause as Error).message}`);
      setError(cause as Error);
    } finally {
      isSent.current = false;
      setSending(false);
    }
  }

  function finish({ outlook: { sentence }, at }: Planned, operations: readonly string[]): void {
    if (mutation === "stop" || mutation === "abort")
      announce(operations, { verb: name, sentence, at: at.toISOString() });
    // A person who has left the page meanwhile stays where they are.
    if (!isShown.current) return;
    isDone.current = true;
    onClose();
    const [operation] = operations;
    if (operation !== undefined) navigate(operationPath(operation));
  }

  const isReasonMissing = needsReason && reason.trim() === "";
  return (
    <Dialog.Root open disablePointerDismissal onOpenChange={(isOpen) => isOpen || isSending || onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog" finalFocus={() => !isDone.current}>
          <Dialog.Title>
            {name} <Text>{object}</Text>
          </Dialog.Title>
          {refusal.length > 0 && (
            <div role="status" className="problem">
              <p>Nothing was done. This is the plan as it is now.</p>
              {refusal.map((line) => (
                <p key={line}>
                  <Text>{line}</Text>
                </p>
              ))}
            </div>
          )}
          {planned && <Announced {...planned} isCurrent={isCurrent} isPlannable={isPlannable} />}
          {missing !== null && <p>{missing}</p>}
          {!planned && isPlannable && error === null && <p aria-busy="true">Asking what it would do…</p>}
          <SignInBanner />
          {error && <Problem error={error} onAgain={() => (isCurrent ? void send() : setPlans(plans + 1))} />}
          <form
            onKeyDown={withoutRepeatedEnter}
            onSubmit={(event) => {
              event.preventDefault();
              void send();
            }}
          >
            {outlook?.plan && outlook.refusals.length > 0 && outlook.plan.plannedCount > 0 && (
              <Acceptance
                count={outlook.plan.plannedCount}
                value={terms.acceptance || (input["acceptance"] === "BEST_EFFORT" ? "BEST_EFFORT" : "ALL_OR_NOTHING")}
                onChange={(acceptance) => setTerms({ ...terms, acceptance })}
              />
            )}
            {mutation === "abort" && (
              <AbortModes
                proposal={proposal}
                terms={read}
                version={`${shownVersion} ${isSignedOut} ${error === null}`}
                value={terms.mode}
                onChange={(mode) => setTerms({ ...terms, mode })}
              />
            )}
            <TermsFields
              known={known}
              terms={terms}
              flaws={flaws}
              onChange={(change) => setTerms({ ...terms, ...change })}
            />
            {!takesNoReason && (
              <label className="field">
                Reason{needsReason && " (required)"}
                <input value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} />
              </label>
            )}
            <Confirmation outlook={outlook} typed={typed} onType={setTyped} />
            <div className="buttons">
              <Dialog.Close type="button">Cancel</Dialog.Close>
              <button
                type="submit"
                className={mutation === "abort" || mutation === "deleteNodes" ? "danger" : "primary"}
                disabled={isSending || !isCurrent || isReasonMissing || !isReady(outlook, typed)}
              >
                {answers === "WAVES" ? name : `${name} ${outlook ? plural(outlook.acceptedCount, "node") : object}`}
              </button>
            </div>
          </form>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** A term without which the request cannot be planned, as a request to the person. */
function missingTerm({ mutation, input }: Proposal, terms: Readonly<Record<string, unknown>>): string | null {
  const has = (name: string) => (terms[name] ?? input[name]) !== undefined;
  if (mutation === "setPower" && !has("action")) return "Choose what happens to the power.";
  if (mutation === "addMembers" && !has("cluster")) return "Choose the cluster.";
  return mutation === "setBootDevice" && !has("device") ? "Choose the device." : null;
}

/** Enter that is held down sends nothing that appears meanwhile. */
function withoutRepeatedEnter(event: KeyboardEvent): void {
  if (event.key === "Enter" && event.repeat) event.preventDefault();
}

function isReady(outlook: Outlook | null, typed: string): boolean {
  if (outlook === null || !outlook.isPossible) return false;
  return outlook.typedCount === null || typed.replaceAll(/[,\s]/g, "") === String(outlook.typedCount);
}

interface AnnouncedProps extends Pick<Planned, "outlook" | "at"> {
  /** It is the plan of the terms as they are typed. */
  readonly isCurrent: boolean;
  readonly isPlannable: boolean;
}

function Announced({ outlook, at, isCurrent, isPlannable }: AnnouncedProps) {
  return (
    <div className="announced" aria-busy={!isCurrent} aria-live="polite">
      <p className="sentence">{outlook.sentence}</p>
      {outlook.more.map((sentence) => (
        <p key={sentence}>
          <Text>{sentence}</Text>
        </p>
      ))}
      <ul className="refusals">
        {outlook.refusals.map(({ code, nodeCount, message, examples }) => (
          <li key={code}>
            <b>{numberText(nodeCount)}</b> refused, {sentenceCase(code).toLowerCase()}:{" "}
            <Text>{inWordsOfPage(message)}</Text>{" "}
            {nodeCount > 1 && (
              <small>
                <Text>{examples.map(({ ref, node }) => node?.name ?? ref).join(", ")}</Text>
                {nodeCount > examples.length && ` and ${numberText(nodeCount - examples.length)} more`}
              </small>
            )}
          </li>
        ))}
        {outlook.errors
          .filter(({ code }) => !outlook.refusals.some((group) => group.code === code))
          .map(({ code, message }) => (
            <li key={`${code} ${message}`}>
              <Text>{inWordsOfPage(message)}</Text>
            </li>
          ))}
      </ul>
      <p className="quiet">
        {isCurrent ? `As of ${timeText(at, at)}` : isPlannable ? "Asking again…" : "Correct the terms first."}
      </p>
    </div>
  );
}

interface AcceptanceProps {
  /** Nodes that accept the request. */
  readonly count: number;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Acceptance({ count, value, onChange }: AcceptanceProps) {
  const choices = { BEST_EFFORT: `the ${numberText(count)} that can`, ALL_OR_NOTHING: "all or nothing" };
  return (
    <fieldset className="choices">
      <legend>Which nodes</legend>
      {Object.entries(choices).map(([choice, label]) => (
        <label key={choice} className="check">
          <input type="radio" name="acceptance" checked={value === choice} onChange={() => onChange(choice)} /> {label}
        </label>
      ))}
      {value === "ALL_OR_NOTHING" && <small className="quiet">One refused node refuses the whole request.</small>}
    </fieldset>
  );
}

interface ConfirmationProps {
  readonly outlook: Outlook | null;
  readonly typed: string;
  readonly onType: (text: string) => void;
}

function Confirmation({ outlook, typed, onType }: ConfirmationProps) {
  if (outlook === null || outlook.typedCount === null || !outlook.isPossible) return null;
  return (
    <label className="field">
      Type {outlook.typedCount} to confirm: the number of nodes that lose data, firmware, power or their record
      <input value={typed} inputMode="numeric" autoComplete="off" onChange={(event) => onType(event.target.value)} />
      {typed !== "" && !isReady(outlook, typed) && <small className="failure">This is another number.</small>}
    </label>
  );
}
