/** Completion of bash: the function that bash calls, and the hidden command `__complete` that it calls in turn. */
import { once } from "node:events";
import type * as Http from "node:http";
import { createRequire } from "node:module";
import { json } from "node:stream/consumers";
import { completeFilter } from "../../client/src/filter-language.ts";
import { authorization } from "./api.ts";
import type { Variables } from "./api.ts";
import type { Command, Flag } from "./command.ts";
import { resolveEndpoint } from "./contexts.ts";
import { REQUESTS } from "./requests.ts";
import type { Answers } from "./requests.ts";

/**
 * Bash must neither evaluate what is typed nor what is printed: words go through arguments and lines. It splits words
 * at spaces alone, since a colon and an equals sign belong to a word, but replaces only what follows the last of these.
 * The prompt comes back after 450 ms, also if the program waits for longer.
 */
export const BASH_COMPLETION = `# Completion of ostler for bash: save it, or run: source <(ostler completion bash)
_ostler_complete() {
  local line word=\${COMP_LINE:0:COMP_POINT} prefix
  local -a words
  COMPREPLY=()
  read -r -a words <<< "$word"
  [[ $word == *[[:space:]] ]] && words+=("")
  prefix=\${words[-1]}
  while IFS= read -r -t 0.45 line; do
    COMPREPLY+=("$line")
  done < <("\${words[0]/#\\~/$HOME}" __complete "\${words[@]:1}" 2>/dev/null)
  if [[ $prefix == *[:=]* && $COMP_WORDBREAKS == *:* ]]; then
    prefix=\${prefix%"\${prefix##*[:=]}"}
    COMPREPLY=("\${COMPREPLY[@]#"$prefix"}")
  fi
  [[ \${#COMPREPLY[@]} == 1 && \${COMPREPLY[0]} == *[:=] ]] && compopt -o nospace
  return 0
}
complete -F _ostler_complete ostler
`;

/** Of the service and of a command that prints the token; bash waits for the start of the program too. */
const ANSWER_MS = 350;
const NAMES_MAX = 200;

/** The words that can stand in place of the last one, which the user is typing. Never throws. */
export async function completions(
  commands: readonly Command[],
  globals: readonly Flag[],
  words: readonly string[],
): Promise<string[]> {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const command = commands.find(({ path }) => startsWith(before, path.split(" ")));
  if (!command) {
    const depth = before.length;
    const nexts = commands.map(({ path }) => path.split(" ")).filter((path) => startsWith(path, before));
    return matching([...new Set(nexts.flatMap((path) => path[depth] ?? []))], typed);
  }
  const { args = [], flags: own = [] } = command;
  const flags = [...own, ...globals];
  const last = before.at(-1) ?? "";
  const open = flags.find(({ form }) => form.includes("<") && form.split(/[ ,]+/).includes(last));
  const rest = before.slice(command.path.split(" ").length).filter((word) => !word.startsWith("-"));
  if (command.path.startsWith("clusters ") && /^(--after|-g,)/.test(open?.form ?? ""))
    return matching(await groupNames(rest[0]), typed);
  if (open) return valuesOf(open, typed);
  if (typed.startsWith("-"))
    return matching(
      flags.map(({ form }) => /--[\w-]+/.exec(form)?.[0] ?? ""),
      typed,
    );
  const argument = args[Math.min(rest.length, args.length - 1)] ?? "";
  if (rest.length === 0 && command.words) return matching(command.words, typed);
  if (/cluster/.test(argument)) return matching(await clusterNames(typed), typed);
  if (/group/.test(argument)) return matching(await groupNames(rest[0]), typed);
  if (/operation/.test(argument) && (rest.length === 0 || args.length === 1)) {
    const found = await Promise.all([operationIds(), ...(/nodes/.test(argument) ? [nodeNames(typed)] : [])]);
    return matching(found.flat(), typed);
  }
  return /node/.test(argument) ? matching(await nodeNames(typed), typed) : [];
}

async function valuesOf({ form, words }: Flag, typed: string): Promise<string[]> {
  if (words) return matching(words, typed);
  if (form.startsWith("--cluster")) return matching(await clusterNames(typed), typed);
  if (!form.startsWith("--filter")) return [];
  const begun = /(?:^|\s)-?cluster:(?:\S*,)?([^\s,]*)$/.exec(typed)?.[1];
  const cluster = begun === undefined ? [] : await clusterNames(begun);
  const { from, options } = completeFilter(typed, undefined, { cluster });
  return options.map((option) => typed.slice(0, from) + option);
}

async function nodeNames(typed: string): Promise<string[]> {
  const found = await answer("firstAndLastName", { filter: { name: { startsWith: typed } }, first: NAMES_MAX });
  return namesOf(found?.nodes, found?.end);
}

async function clusterNames(typed: string): Promise<string[]> {
  const found = await answer("clusterNames", { filter: { name: { startsWith: typed } } });
  return namesOf(found?.clusters, found?.end);
}

type Page = { readonly nodes: readonly { readonly name: string }[] } | undefined;

/** The last one too: what all names have in common, which bash inserts, is what the first and the last have. */
function namesOf(...pages: readonly Page[]): string[] {
  return [...new Set(pages.flatMap((page) => page?.nodes ?? []).map(({ name }) => name))];
}

async function groupNames(name = ""): Promise<string[]> {
  const { cluster } = (await answer("hostGroupNames", { name })) ?? {};
  return cluster ? [...cluster.hostGroups.map((group) => group.name), ...cluster.otherHostGroups] : [];
}

async function operationIds(): Promise<string[]> {
  return ((await answer("operationUuids", { first: 20 }))?.operations.nodes ?? []).map(({ uuid }) => uuid);
}

/**
 * The answer of the service; null if it does not come at once. In Node 20 fetch takes as long to load as the rest, and
 * only over TLS is it needed: it trusts the certificate of the service on this host.
 */
async function answer<Name extends keyof Answers>(name: Name, variables: Variables): Promise<Answers[Name] | null> {
  try {
    const { url, token } = resolveEndpoint({}, ANSWER_MS);
    const headers = { "content-type": "application/json", ...authorization({ token }) };
    const options = { method: "POST", headers, signal: AbortSignal.timeout(ANSWER_MS) };
    const body = JSON.stringify({ query: REQUESTS[name], variables });
    // An import reads all members of this module, and one of them loads the client of `fetch`: 40 ms of each command.
    const { request } = createRequire(import.meta.url)("node:http") as typeof Http;
    const read = url.startsWith("https:")
      ? fetch(url, { ...options, body }).then((response) => response.json())
      : once(request(url, options).end(body), "response").then(([response]) => json(response as Http.IncomingMessage));
    return ((await read) as { readonly data: Answers[Name] }).data;
  } catch {
    return null;
  }
}

function startsWith(words: readonly string[], beginning: readonly string[]): boolean {
  return beginning.length <= words.length && beginning.every((word, index) => words[index] === word);
}

/** Only words of harmless characters: what is printed lands on the user's command line. */
function matching(words: readonly string[], typed: string): string[] {
  return words.filter((word) => word.toLowerCase().startsWith(typed.toLowerCase()) && /^[\w@%+=:,./-]+$/.test(word));
}
