/** The terms of a request as a person types them, and the input that they are. */

/** Texts of fields; an empty one leaves the term as the service has it. */
export const NO_TERMS = {
  cluster: "",
  image: "",
  hostGroup: "",
  until: "",
  power: "",
  device: "",
  /** How far an abort goes. */
  mode: "",
  powerOff: "",
  maxParallel: "",
  waves: "",
  haltAt: "",
  onFailure: "",
  acceptance: "",
  variables: "",
  fromBeginning: false,
  reinstall: false,
  persistent: false,
  force: false,
};

export type TypedTerms = Readonly<typeof NO_TERMS>;

export type TermFlaws = { readonly [Field in keyof TypedTerms]?: string };

export interface ReadTerms {
  readonly input: Readonly<Record<string, unknown>>;
  /** By field, as a sentence; empty if all of them can be sent. */
  readonly flaws: TermFlaws;
}

type Share = { readonly count: number } | { readonly percent: number };

/** As the service answers: one of both is null. */
export interface ReadShare {
  readonly count?: number | null;
  readonly percent?: number | null;
}

/** `2`, `50 %`; empty without a number. */
export function shareText(share: ReadShare | null): string {
  if (share === null) return "";
  return share.percent == null ? String(share.count) : `${share.percent} %`;
}

/** `5`, `2.5 %` or `rest`; null if it is none of them. */
export function shareOf(text: string): Share | null {
  if (text === "rest") return { percent: 100 };
  const [, number, percent] = /^(\d{1,7}(?:\.\d+)?)\s*(%?)$/.exec(text) ?? [];
  if (number === undefined) return null;
  if (percent === "%") return Number(number) <= 100 ? { percent: Number(number) } : null;
  return number.includes(".") ? null : { count: Number(number) };
}

export function readTerms(terms: TypedTerms): ReadTerms {
  const flaws: { -readonly [Field in keyof TermFlaws]: string } = {};
  const input: Record<string, unknown> = {};
  const { image, hostGroup, until, power, device, maxParallel, waves, haltAt, onFailure, acceptance } = terms;
  const texts = { hostGroup, until, action: power, device, mode: terms.mode, onFailure, acceptance };
  for (const [name, text] of Object.entries(texts)) if (text.trim() !== "") input[name] = text.trim();
  if (terms.cluster !== "") input["cluster"] = { name: terms.cluster };
  if (image !== "") input["image"] = { name: image };
  if (terms.powerOff !== "") input["powerOff"] = terms.powerOff === "yes";
  if (terms.fromBeginning) input["from"] = "BEGINNING";
  for (const name of ["reinstall", "persistent", "force"] as const) if (terms[name]) input[name] = true;
  if (maxParallel.trim() !== "") {
    if (/^[1-9]\d{0,8}$/.test(maxParallel.trim())) input["maxParallel"] = Number(maxParallel);
    else flaws.maxParallel = "Use a number of nodes, 1 or more.";
  }
  if (waves.trim() !== "") {
    const sizes = waves.split(",").map((part) => shareOf(part.trim().toLowerCase()));
    if (sizes.includes(null)) flaws.waves = "Use numbers, percentages and rest, such as 1 %, 10 %, rest.";
    else input["waves"] = { sizes };
  }
  if (haltAt.trim() !== "") {
    const most = shareOf(haltAt.trim());
    if (most === null) flaws.haltAt = "Use a number or a percentage, such as 5 %.";
    else if (waves.trim() === "") flaws.haltAt = "Only waves can halt: name their sizes too.";
    else if (input["waves"] !== undefined) input["waves"] = { ...(input["waves"] as object), maxFailures: most };
  }
  const variables = objectOf(terms.variables);
  if (typeof variables === "string") flaws.variables = variables;
  else if (variables !== null) input["variables"] = variables;
  return { input, flaws };
}

/** A JSON object; null of an empty text, and a sentence if it is not one. */
export function objectOf(text: string): object | string | null {
  if (text.trim() === "") return null;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
    return 'Use a JSON object, such as {"ntp": "10.0.0.1"}.';
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

const CONSEQUENCES: Readonly<Record<string, string>> = {
  LEAVE: "A failed node stays as it is; the others continue.",
  CLEAN_UP_FAILED: "A failed node is cleaned up; the others continue.",
  CLEAN_UP_ALL: "If one node fails, all are cleaned up.",
};

/** The failure policy that was chosen, as a sentence; null without a choice. */
export const failureSentence = (policy: string): string | null => CONSEQUENCES[policy] ?? null;
