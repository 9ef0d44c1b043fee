/** What may be called how: names of nodes, clusters and runbooks, labels, host groups. Each answers the flaws of what it is given. */
import type { Refusal } from "../../errors.ts";

const NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/;
const LABEL = /^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/;
const LABELS_MAX = 64;

export function nameFlaw(name: string, path: readonly string[]): Refusal[] {
  if (NAME.test(name)) return [];
  return [
    {
      code: "INVALID_INPUT",
      message: `The name ${JSON.stringify(name)} does not do: letters, digits, dot, dash and underscore, 1 to 253 of them, with a letter or digit at either end.`,
      path,
    },
  ];
}

export function labelFlaws(labels: Readonly<Record<string, string>> | undefined, path: readonly string[]): Refusal[] {
  const entries = Object.entries(labels ?? {});
  if (entries.length > LABELS_MAX)
    return [{ code: "INVALID_INPUT", message: `A node has at most ${LABELS_MAX} labels.`, path: [...path, "labels"] }];
  return entries
    .filter(([key, value]) => !LABEL.test(key) || value.length > 253)
    .map(([key]) => ({
      code: "INVALID_INPUT",
      message: `The label ${JSON.stringify(key)} does not do: its key has letters, digits, dot, dash, slash and underscore, at most 63; its value at most 253 characters.`,
      path: [...path, "labels"],
    }));
}

export function hostGroupFlaw(hostGroup: string | null | undefined, path: readonly string[]): Refusal[] {
  if (hostGroup == null || LABEL.test(hostGroup)) return [];
  return [
    {
      code: "INVALID_INPUT",
      message: `The host group ${JSON.stringify(hostGroup)} does not do: letters, digits, dot, dash, slash and underscore, 1 to 63 of them, with a letter or digit at either end.`,
      path: [...path, "hostGroup"],
    },
  ];
}

/** Names that a sentence tells at most: what names all of them is beside it, for programs. */
const LISTED_MAX = 10;

/** The names as a sentence tells them: the first few, and how many more there are. */
export function listed(names: readonly string[]): string {
  const more = names.length - LISTED_MAX;
  return more > 0 ? `${names.slice(0, LISTED_MAX).join(", ")} and ${more.toLocaleString("en")} more` : names.join(", ");
}
