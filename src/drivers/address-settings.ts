/**
 * Addresses that callers write for a driver, as its schemas mark them: `address: true` for a machine, in settings,
 * arguments and variables; `fileUrl: true` for the URL of a file, in arguments and variables. egress.ts checks the
 * values before each call; it runs in workers too, which load no schemas.
 */
import { isRecord } from "../runtime/json-values.ts";
import { fileServers } from "../runtime/file-servers.ts";
import type { FileServers } from "../runtime/file-servers.ts";
import type { IpNetworks } from "../runtime/ip-networks.ts";
import type { Driver, Schema, Step } from "./driver.ts";
import { addressProblem, hostOf, markedValues, stepKey } from "./egress.ts";
import type { EgressLimits, Mark } from "./egress.ts";
import { STEP_INTERFACES } from "./interfaces.ts";
import type { Issue } from "./issues.ts";
import { jsonSchemaOf, referred } from "./settings-shape.ts";

/** Throws an error with one sentence if a mark would not hold. */
export function egressLimits(
  driver: Driver<unknown>,
  networks: IpNetworks,
  files: FileServers = fileServers([], null),
): EgressLimits {
  const { settings, discover, variables } = driver;
  const steps = STEP_INTERFACES.flatMap((name) => driver[name]?.steps ?? []);
  const marked = {
    settings: marksOf(settings),
    discovery: discover ? marksOf(discover.settings) : [],
    variables: variables ? marksOf(variables) : [],
    args: Object.fromEntries(
      steps.flatMap((step) => {
        const marks = step.args ? marksOf(step.args) : [];
        return marks.length === 0 ? [] : [[stepKey(step), marks]];
      }),
    ),
  };
  if ([...marked.settings, ...marked.discovery].some(({ kind }) => kind === "FILE"))
    throw new Error(
      `Driver "${driver.name}" marks a setting with \`fileUrl\`, which holds only for arguments and variables.`,
    );
  return { networks, files, marked };
}

/** The rules for marked values; null: not limited. */
export interface AddressRules {
  readonly networks: IpNetworks | null;
  readonly files: FileServers | null;
  /** Servers of registered images. */
  images(): Promise<readonly string[]>;
}

/** The problems of the marked values in a value of the schema. Names are not resolved. */
export async function addressProblems(
  schema: Schema<unknown>,
  value: unknown,
  rules: AddressRules,
): Promise<readonly Issue[]> {
  const issues: Issue[] = [];
  for (const { kind, path, text } of markedValues(marksOf(schema), value)) {
    const message = kind === "FILE" ? await fileProblem(text, rules) : machineProblem(text, rules);
    if (message !== null) issues.push({ path, message });
  }
  return issues;
}

async function fileProblem(url: string, { files, images }: AddressRules): Promise<string | null> {
  return files && files.problem(url, []) !== null ? files.problem(url, await images()) : null;
}

function machineProblem(text: string, { networks }: AddressRules): string | null {
  const host = hostOf(text);
  return host !== null && networks ? addressProblem(host, networks) : null;
}

/** The URLs of files in the arguments and variables of a step. */
export function fileUrlsOf(
  { variables }: Pick<Driver<unknown>, "variables">,
  { args }: Pick<Step<unknown>, "args">,
  given: { readonly args: unknown; readonly variables: unknown },
): readonly string[] {
  const found = [
    ...(args ? markedValues(marksOf(args), given.args) : []),
    ...(variables ? markedValues(marksOf(variables), given.variables) : []),
  ];
  return found.filter(({ kind }) => kind === "FILE").map(({ text }) => text);
}

const KINDS = [
  ["address", "ADDRESS"],
  ["fileUrl", "FILE"],
] as const;
/** Keywords whose schemas apply to each item or member, and those whose schemas apply to the value itself. */
const TO_MEMBERS = ["items", "prefixItems", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"];
const TO_SELF = ["anyOf", "oneOf", "allOf", "if", "then", "else"];

const known = new WeakMap<Schema<unknown>, readonly Mark[]>();

/** The marks of a schema, at any depth. One that cannot be expressed as JSON Schema has none. */
function marksOf(schema: Schema<unknown>): readonly Mark[] {
  const found = known.get(schema);
  if (found) return found;
  const marks: (Mark & { readonly references: readonly unknown[] })[] = [];
  const cycles = new Set<unknown>();
  let root: unknown;
  try {
    root = jsonSchemaOf(schema);
  } catch {
    root = {};
  }
  const visit = (part: unknown, path: readonly string[], references: readonly unknown[]): void => {
    if (Array.isArray(part)) for (const one of part) visit(one, path, references);
    if (!isRecord(part)) return;
    for (const [word, kind] of KINDS) if (part[word] === true) marks.push({ kind, path, references });
    const { $ref: reference } = part;
    if (references.includes(reference)) cycles.add(reference);
    else if (reference !== undefined) visit(referred(reference, root), path, [...references, reference]);
    for (const word of TO_SELF) visit(part[word], path, references);
    for (const word of TO_MEMBERS) visit(part[word], [...path, "*"], references);
    for (const word of ["patternProperties", "dependentSchemas"])
      if (isRecord(part[word]))
        visit(Object.values(part[word]), word === "dependentSchemas" ? path : [...path, "*"], references);
    if (isRecord(part["properties"]))
      for (const [name, inside] of Object.entries(part["properties"])) visit(inside, [...path, name], references);
  };
  visit(root, [], []);
  if (marks.some(({ references }) => references.some((one) => cycles.has(one))))
    throw new Error("An address is marked in a schema that refers to itself, where not every value would be checked.");
  const plain = marks.map(({ kind, path }) => ({ kind, path }));
  known.set(schema, plain);
  return plain;
}
