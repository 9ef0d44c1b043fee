/** The terms of a request: the ones that shape it first, the rest on demand. What is typed stays through new plans. */
import { useId } from "react";
import type { ReactNode } from "react";
import { useRequest } from "../data/queries.ts";
import { clusters, useStore } from "../data/streams.ts";
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

const POWER = {
  ON: "On",
  SOFT_OFF: "Shut down",
  OFF: "Off at once",
  SOFT_REBOOT: "Shut down, then on",
  REBOOT: "Off, then on",
};
const DEVICES = {
  NETWORK: "Network (PXE)",
  HTTP: "Network (HTTP)",
  DISK: "Disk",
  CDROM: "CD-ROM",
  BIOS: "Setup of the firmware",
};
const UNTIL = { "": "Active: deployed", AVAILABLE: "Available: cleaned" };
const POLICIES = {
  "": "by default",
  LEAVE: "leave it",
  CLEAN_UP_FAILED: "clean it up",
  CLEAN_UP_ALL: "clean all up",
};
const POWER_AFTER = {
  "": "off in cleaning or deployment, else as it is",
  yes: "off",
  no: "as it is",
};
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

export function TermsFields(props: TermsProps) {
  const { known, terms, flaws, onChange } = props;
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
  const choice = (term: Term & keyof TypedTerms, label: string, choices: Readonly<Record<string, string>>) =>
    has(term) && (
      <label className="field">
        {label}
        <select value={String(terms[term])} onChange={(event) => onChange({ [term]: event.target.value })}>
          {Object.entries(choices).map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      </label>
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
          {choice("power", "Power", { "": "choose", ...POWER })}
          {choice("device", "Device", { "": "choose", ...DEVICES })}
          {choice("until", "Until", UNTIL)}
          {has("image") && <ImageTerm value={terms.image} onChange={(image) => onChange({ image })} />}
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

interface NameTermProps {
  readonly value: string;
  readonly onChange: (name: string) => void;
}

function ClusterTerm({ value, onChange }: NameTermProps) {
  const { items } = useStore(clusters);
  return (
    <label className="field">
      Cluster
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">choose</option>
        {[...items.values()].map(({ id, name }) => (
          <option key={id}>{name}</option>
        ))}
      </select>
    </label>
  );
}

/** The image by its name; the service says if a driver needs one. */
function ImageTerm({ value, onChange }: NameTermProps) {
  const { data } = useRequest("images", {});
  const images = data?.images.nodes ?? [];
  if (images.length === 0) return null;
  return (
    <label className="field">
      Image
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">as the node has it</option>
        {images.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
