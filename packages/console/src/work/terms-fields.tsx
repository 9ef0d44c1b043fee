/** The terms of a request: the ones that shape it first, the rest on demand. What is typed stays through new plans. */
import { useId } from "react";
import type { ReactNode } from "react";
import { useRequest } from "../data/queries.ts";
import { clusters, useStore } from "../data/streams.ts";
import { Choice } from "../parts/choice.tsx";
import type { Term } from "../words/verbs.ts";
import type { TermFlaws, TypedTerms } from "../words/terms.ts";
import { failureSentence } from "../words/terms.ts";

interface TermsProps {
  /** The terms that the mutation takes. */
  readonly known: readonly Term[];
  readonly terms: TypedTerms;
  readonly flaws: TermFlaws;
  readonly onChange: (change: Partial<TypedTerms>) => void;
}

const POWER = [
  ["", "choose"],
  ["ON", "On"],
  ["SOFT_OFF", "Shut down"],
  ["OFF", "Off at once"],
  ["SOFT_REBOOT", "Shut down, then on"],
  ["REBOOT", "Off, then on"],
] as const;
const DEVICES = [
  ["", "choose"],
  ["NETWORK", "Network (PXE)"],
  ["HTTP", "Network (HTTP)"],
  ["DISK", "Disk"],
  ["CDROM", "CD-ROM"],
  ["BIOS", "Setup of the firmware"],
] as const;
const UNTIL = [
  ["", "Active: deployed"],
  ["AVAILABLE", "Available: cleaned"],
] as const;
const POLICIES = [
  ["", "by default"],
  ["LEAVE", "leave it"],
  ["CLEAN_UP_FAILED", "clean it up"],
  ["CLEAN_UP_ALL", "clean all up"],
] as const;
const POWER_AFTER = [
  ["", "off in cleaning or deployment, else as it is"],
  ["yes", "off"],
  ["no", "as it is"],
] as const;
/** The terms that are shown without asking for more; the dialog shows the modes of an abort with what they do. */
const FIRST: readonly Term[] = [
  "cluster",
  "power",
  "device",
  "until",
  "image",
  "hostGroup",
  "reinstall",
  "persistent",
  "mode",
  "powerOff",
];

const namesOf = (named: readonly { readonly name: string }[]) => named.map(({ name }) => [name, name] as const);

export function TermsFields({ known, terms, flaws, onChange }: TermsProps) {
  // The service says if a driver needs an image.
  const images = useRequest("images", {}, known.includes("image") ? 0 : null).data?.images.nodes ?? [];
  if (known.length === 0) return null;
  const has = (term: Term) => known.includes(term);
  const text = (term: Term & keyof TermFlaws, label: string, hint: string) =>
    has(term) && (
      <TextTerm
        label={label}
        hint={hint}
        value={String(terms[term])}
        flaw={flaws[term]}
        onChange={(value) => onChange({ [term]: value })}
      />
    );
  const choice = (term: Term & keyof TypedTerms, label: string, choices: readonly (readonly [string, string])[]) =>
    has(term) && (
      <Choice label={label} value={String(terms[term])} choices={choices} onChange={(to) => onChange({ [term]: to })} />
    );
  const check = (term: Term & keyof TypedTerms, label: string) =>
    has(term) && (
      <label className="check">
        <input
          type="checkbox"
          checked={terms[term] === true}
          onChange={(event) => onChange({ [term]: event.target.checked })}
        />{" "}
        {label}
      </label>
    );
  const consequence = failureSentence(terms.onFailure);
  return (
    <>
      {known.some((term) => FIRST.includes(term)) && (
        <div className="terms">
          {has("cluster") && <ClusterTerm value={terms.cluster} onChange={(cluster) => onChange({ cluster })} />}
          {choice("power", "Power", POWER)}
          {choice("device", "Device", DEVICES)}
          {choice("until", "Until", UNTIL)}
          {images.length > 0 && choice("image", "Image", [["", "as the node has it"], ...namesOf(images)])}
          {text("hostGroup", "Host group", "as it is")}
          {check("reinstall", "Install again where a system runs: it is erased")}
          {check("persistent", "For all later starts too")}
          {choice("powerOff", "Power afterwards", POWER_AFTER)}
        </div>
      )}
      <details hidden={known.every((term) => FIRST.includes(term))}>
        <summary>At a time, waves, failures and more</summary>
        <div className="terms">
          {text("maxParallel", "Nodes at a time", "all")}
          {text("waves", "Waves", "1 %, 10 %, rest")}
          {text("haltAt", "Halt at failures", "5 %")}
          {choice("onFailure", "On failure", POLICIES)}
          {text("variables", "Variables (JSON)", '{"ntp": "10.0.0.1"}')}
          {check("fromBeginning", "Keep nothing of earlier work")}
          {check("force", "Also nodes that have disappeared or have a fault")}
        </div>
        {consequence !== null && <p className="quiet">{consequence}</p>}
      </details>
    </>
  );
}

function ClusterTerm(props: { readonly value: string; readonly onChange: (name: string) => void }) {
  const { items } = useStore(clusters);
  return <Choice label="Cluster" choices={[["", "choose"], ...namesOf([...items.values()])]} {...props} />;
}

interface TextTermProps {
  readonly label: string;
  readonly hint: string;
  readonly value: string;
  readonly flaw: string | undefined;
  readonly onChange: (value: string) => void;
}

function TextTerm({ label, hint, value, flaw, onChange }: TextTermProps): ReactNode {
  const id = useId();
  return (
    <label className="field">
      {label}
      <input
        value={value}
        placeholder={hint}
        autoComplete="off"
        aria-invalid={flaw !== undefined}
        aria-describedby={flaw === undefined ? undefined : id}
        onChange={(event) => onChange(event.target.value)}
      />
      {flaw !== undefined && (
        <small id={id} className="failure">
          {flaw}
        </small>
      )}
    </label>
  );
}
