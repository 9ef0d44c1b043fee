/**
 * Fields that are saved together, for the revision that was read: if another person has changed one of them meanwhile,
 * nothing is saved, the differences are named, and what was typed stays. After a change of something else the save is
 * sent again for the new revision.
 */
import { Dialog } from "@base-ui/react/dialog";
import { useEffect, useId, useRef, useState } from "react";
import type { ReactNode } from "react";
import { areSame, differencesOf, mergedTexts } from "../words/edits.ts";
import { hiddenIn } from "../words/plain-text.ts";
import type { EditField, Edited, ReadEdit, Texts } from "../words/edits.ts";
import { unseen } from "../work/announcements.ts";
import { SignInBanner } from "./sign-in.tsx";
import { Problem } from "./notices.tsx";
import { Text } from "./text.tsx";

interface EditError {
  readonly code: string;
  readonly message: string;
  readonly path: readonly string[] | null;
}

export interface Editing {
  /** As it is now. */
  readonly current: Edited;
  readonly fieldsOf: (texts: Texts) => readonly EditField[];
  readonly read: (texts: Texts, before: Texts) => ReadEdit;
  readonly save: (input: ReadEdit["input"], revision: number) => Promise<readonly EditError[]>;
  /** Read again; null if it does not exist any longer. */
  readonly reread: () => Promise<Edited | null>;
  /** The field at fault; null: the whole. */
  readonly placeOf: (path: readonly string[], texts: Texts) => string | null;
  readonly onSaved?: (input: ReadEdit["input"]) => void;
  /** Adds a group of fields, or removes one. */
  readonly groups?: {
    readonly add: (texts: Texts) => Texts;
    readonly remove: (texts: Texts, group: string) => Texts;
  };
}

interface Sent {
  readonly refusals: readonly EditError[];
  /** For which it was sent. */
  readonly revision: number;
}

const TRIES = 3;
const drafts = new Map<string, { readonly base: Edited; readonly texts: Texts }>();

interface EditorProps {
  readonly editing: Editing;
  /** Why the caller may not save; null if it may. */
  readonly lack?: string | null;
  /** Under which what was typed is kept while another screen is shown. */
  readonly draft?: string;
  /** Stands beside the button that saves, in place of the one that discards what was typed. */
  readonly leave?: ReactNode;
}

export function Editor({ editing, lack = null, draft, leave }: EditorProps) {
  const { fieldsOf, read, save, reread, placeOf, onSaved, groups } = editing;
  const kept = draft === undefined ? undefined : drafts.get(draft);
  /** That the texts were made of. */
  const [base, setBase] = useState(kept?.base ?? editing.current);
  const [texts, setTexts] = useState(kept?.texts ?? base.texts);
  /** Read after a refusal. */
  const [latest, setLatest] = useState(base);
  const [problem, setProblem] = useState<Error | null>(null);
  const [errors, setErrors] = useState<readonly EditError[]>([]);
  const [isSending, setSending] = useState(false);
  const now = latest.revision > editing.current.revision ? latest : editing.current;
  const fields = fieldsOf(texts);
  const { input, flaws } = read(texts, base.texts);
  const known = fieldsOf({ ...base.texts, ...now.texts, ...texts });
  const changed = changesOf(known, base.texts, texts);
  const isTouched = !areSame(texts, base.texts);
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => void (isShown.current = false);
  }, []);
  useEffect(() => {
    if (draft === undefined) return;
    if (isTouched) drafts.set(draft, { base, texts });
    else drafts.delete(draft);
  });
  const other = changesOf(known, base.texts, now.texts);
  if (now.revision !== base.revision && (other.length === 0 || !isTouched)) {
    setBase(now);
    setTexts(mergedTexts(base.texts, texts, now.texts));
  }
  const hasFlaw = Object.keys(flaws).length > 0;
  const canSend = lack === null && changed.length > 0 && !hasFlaw && !isSending;

  async function send(): Promise<void> {
    if (!canSend) return;
    setSending(true);
    setErrors([]);
    setProblem(null);
    try {
      const { refusals, revision } = await sendFor(base.revision);
      setErrors(refusals);
      if (!isShown.current && refusals.length > 0)
        unseen.set(`Nothing was saved. ${refusals.map(({ message }) => message).join(" ")}`);
      if (refusals.length > 0) return;
      if (draft !== undefined) drafts.delete(draft);
      // The new revision follows, and replaces these texts.
      setBase({ revision, texts });
      // A person who has left the page meanwhile stays where they are.
      if (isShown.current) onSaved?.(input);
    } catch (error) {
      if (!isShown.current) unseen.set(`Nothing was saved. ${(error as Error).message}`);
      setProblem(error as Error);
    } finally {
      setSending(false);
    }
  }

  async function sendFor(revision: number, tries = 1): Promise<Sent> {
    const refusals = await save(input, revision);
    if (!refusals.some(({ code }) => code === "STALE_REVISION")) return { refusals, revision };
    const newest = await reread();
    if (newest === null) return { refusals, revision };
    setLatest(newest);
    const isAgain = areSame(newest.texts, base.texts) && tries < TRIES;
    return isAgain ? sendFor(newest.revision, tries + 1) : { refusals, revision };
  }

  /** `name`: the field that changes; without it groups do, and so the places of errors. */
  function put(next: Texts, name?: string): void {
    setTexts(next);
    setErrors(name === undefined ? [] : errors.filter(({ path }) => !path || placeOf(path, texts) !== name));
  }

  const isKnown = (name: string | null) => fields.some((field) => field.name === name);
  const flawsOf = (name: string) => [
    ...(flaws[name] === undefined ? [] : [flaws[name]]),
    ...errors.filter(({ path }) => path && placeOf(path, texts) === name).map(({ message }) => message),
  ];
  return (
    <form
      className="editor"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {[...Map.groupBy(fields, ({ group }) => group)].map(([group, members]) => (
        <Group key={group ?? ""} name={group} onRemove={groups && ((name) => put(groups.remove(texts, name)))}>
          {members.map((field) => (
            <Field
              key={field.name}
              field={field}
              value={texts[field.name] ?? ""}
              flaws={flawsOf(field.name)}
              onChange={(text) => put({ ...texts, [field.name]: text }, field.name)}
            />
          ))}
        </Group>
      ))}
      <p className={hasFlaw ? "failure" : "quiet"} aria-live="polite">
        <Text>{lack ?? (hasFlaw ? "Correct what is marked." : changesText(changed))}</Text>
      </p>
      {other.length > 0 && isTouched && (
        <div role="status" className="problem">
          <p>
            Changed by another person meanwhile: <Text>{other.join(", ")}</Text>. Your text has the earlier values.
          </p>
          <button
            type="button"
            onClick={() => {
              setBase(now);
              setTexts(mergedTexts(base.texts, texts, now.texts));
              setErrors([]);
            }}
          >
            Compare with the new values
          </button>
        </div>
      )}
      {errors
        .filter(({ path }) => !isKnown(path && placeOf(path, texts)))
        .map(({ message }) => (
          <p key={message} role="alert" className="problem">
            <Text>{message}</Text>
          </p>
        ))}
      {problem && <Problem error={problem} />}
      <div className="buttons">
        {groups && (
          <button type="button" onClick={() => put(groups.add(texts))}>
            Add a host group
          </button>
        )}
        {leave ?? (
          <button type="button" disabled={!isTouched} onClick={() => setTexts(base.texts)}>
            Discard
          </button>
        )}
        <button type="submit" className="primary" disabled={!canSend}>
          Save
        </button>
      </div>
    </form>
  );
}

/** By field if there are several; groups that come or go are changes too. */
function changesOf(fields: readonly EditField[], before: Texts, after: Texts): readonly string[] {
  const changes = fields.flatMap((field) => {
    const { name, group, label } = field;
    if (group !== undefined && !(name in after)) return name in before ? [`without ${group}`] : [];
    if (group !== undefined && !(name in before)) return [`with ${group}`];
    const found = differencesOf(field, before, after);
    if (fields.length === 1 || found.length === 0) return found;
    const place = label.split(/[,(]/)[0]?.trim().toLowerCase();
    return [`${group === undefined ? "" : `${group}: `}${place} (${found.join(", ")})`];
  });
  return [...new Set(changes)];
}

interface GroupProps {
  readonly name: string | undefined;
  readonly onRemove: ((name: string) => void) | undefined;
  readonly children: ReactNode;
}

function Group({ name, onRemove, children }: GroupProps) {
  if (name === undefined) return children;
  return (
    <fieldset className="edit-group">
      <legend>
        <Text>{name}</Text>
      </legend>
      {children}
      <button type="button" onClick={() => onRemove?.(name)}>
        Remove <Text>{name}</Text>
      </button>
    </fieldset>
  );
}

interface FieldProps {
  readonly field: EditField;
  readonly value: string;
  readonly flaws: readonly string[];
  readonly onChange: (text: string) => void;
}

const ROWS_MAX = 24;
const HIDDEN_SHOWN = 10;

function Field({ field: { label, kind, hint, choices }, value, flaws, onChange }: FieldProps) {
  const id = useId();
  const hidden = hiddenIn(value);
  const input = {
    value,
    placeholder: hint,
    autoComplete: "off",
    spellCheck: kind === "line",
    "aria-invalid": flaws.length > 0,
    "aria-describedby": flaws.length > 0 ? id : undefined,
  };
  if (kind === "check")
    return (
      <label className="check">
        <input
          type="checkbox"
          checked={value !== ""}
          onChange={({ target }) => onChange(target.checked ? "yes" : "")}
        />{" "}
        {label}
      </label>
    );
  return (
    <label className="field">
      {label}
      {kind === "choice" ? (
        <select value={value} onChange={({ target }) => onChange(target.value)}>
          {Object.entries(choices ?? {}).map(([choice, name]) => (
            <option key={choice} value={choice}>
              {name}
            </option>
          ))}
        </select>
      ) : kind === "line" ? (
        <input {...input} onChange={({ target }) => onChange(target.value)} />
      ) : (
        <textarea
          {...input}
          rows={Math.min(ROWS_MAX, value.split("\n").length + 1)}
          onChange={({ target }) => onChange(target.value)}
        />
      )}
      {hidden.length > 0 && (
        <small className="quiet">Characters that are not visible: {hidden.slice(0, HIDDEN_SHOWN).join(", ")}</small>
      )}
      {flaws.length > 0 && (
        <small id={id} className="failure" role="alert">
          {flaws.map((flaw) => (
            <span key={flaw} className="line">
              <Text>{flaw}</Text>
            </span>
          ))}
        </small>
      )}
    </label>
  );
}

interface EditDialogProps {
  readonly title: string;
  readonly editing: Editing;
  readonly onClose: () => void;
}

export function EditDialog({ title, editing, onClose }: EditDialogProps) {
  const { onSaved } = editing;
  return (
    <Dialog.Root open disablePointerDismissal onOpenChange={(isOpen) => isOpen || onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>
            <Text>{title}</Text>
          </Dialog.Title>
          <SignInBanner />
          <Editor
            editing={{
              ...editing,
              onSaved(input) {
                onClose();
                onSaved?.(input);
              },
            }}
            leave={<Dialog.Close type="button">Cancel</Dialog.Close>}
          />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function changesText(changed: readonly string[]): string {
  return changed.length === 0 ? "Nothing is changed." : `Changed: ${changed.join(", ")}`;
}
