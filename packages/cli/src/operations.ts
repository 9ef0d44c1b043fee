/** Commands that read operations and logs of runs. */
import { follow, linePosition, send } from "./api.ts";
import { CliError, EXIT } from "./exit.ts";
import type { Answers } from "./requests.ts";
import { chooseColumns, pages, print, printJson, printTable, requireOperation, warn } from "./session.ts";
import type { Column, Session } from "./session.ts";
import { printFields } from "./nodes.ts";
import { safe, timeText } from "./text.ts";
import { commandWords } from "./verbs.ts";
import { failureText } from "./wait.ts";

type Operation = Answers["operations"]["operations"]["nodes"][number];

const UNFINISHED = ["QUEUED", "RUNNING", "ABORTING", "STOPPING"];
const NEWEST = 20;

const COLUMNS: Readonly<Record<string, Column<Operation>>> = {
  id: { title: "ID", value: ({ uuid }) => uuid.slice(0, 8) },
  kind: { title: "KIND", value: ({ kind }) => kind },
  state: { title: "STATE", value: ({ state }) => state },
  nodes: { title: "NODES", value: ({ finishedCount, totalCount }) => `${finishedCount}/${totalCount}` },
  failed: { title: "FAILED", value: ({ failedCount }) => (failedCount === 0 ? "" : String(failedCount)) },
  cluster: { title: "CLUSTER", value: ({ cluster }) => cluster?.name ?? "" },
  by: { title: "BY", value: ({ requestedBy }) => requestedBy },
  created: { title: "CREATED", value: ({ createdAt }, isTerminal) => timeText(createdAt, isTerminal) },
  reason: { title: "REASON", value: ({ reason }) => reason ?? "" },
  uuid: { title: "UUID", value: ({ uuid }) => uuid },
};
const STANDARD = ["id", "kind", "state", "nodes", "failed", "cluster", "by", "created", "reason"];

export interface ListFlags {
  readonly active?: boolean;
  readonly last?: boolean;
}

export async function getOperations(session: Session, id: string | undefined, flags: ListFlags): Promise<number> {
  if (id !== undefined) return showOperation(session, id);
  const columns = chooseColumns(COLUMNS, session, STANDARD);
  const filter = flags.active ? { states: UNFINISHED } : undefined;
  const { operations } = await send(session.server, "operations", { filter, first: flags.last ? 1 : NEWEST });
  if (session.output === "json") printJson(operations.nodes);
  else if (session.output === "names") for (const { uuid } of operations.nodes) print(uuid);
  else printTable(session, columns, operations.nodes);
  return EXIT.done;
}

async function showOperation(session: Session, given: string): Promise<number> {
  const id = await requireOperation(session, given);
  const { operation } = await send(session.server, "operation", { id });
  if (!operation) throw new CliError(EXIT.refused, `Operation ${safe(given)} does not exist.`);
  const { failures, runs, ...fields } = operation;
  printFields(session, session.output === "json" ? operation : fields);
  if (session.output === "json") return EXIT.done;
  for (const group of failures.groups) print(`${failureText(group)}\n    ${safe(commandWords(group.remedy))}`);
  for (const { nodeName, state, currentStep, failure, waiting } of runs.nodes)
    print(
      safe(
        `  ${nodeName}  ${state}  ${currentStep?.name ?? ""}  ${failure?.message ?? waiting?.description ?? ""}`.trimEnd(),
      ),
    );
  if (operation.totalCount > runs.nodes.length) print(`  and ${operation.totalCount - runs.nodes.length} more`);
  return EXIT.done;
}

/** The log of one node in one operation. */
export async function showLog(
  session: Session,
  { operation, node, isFollowed }: { readonly operation: string; readonly node: string; readonly isFollowed: boolean },
): Promise<number> {
  const id = await runOf(session, await requireOperation(session, operation), node);
  const show = (line: { readonly at?: string; readonly step?: string; readonly text?: string }) =>
    session.output === "json"
      ? printJson(line)
      : print(`${line.at ?? ""}  ${safe(line.step ?? "")}  ${safe(line.text ?? "")}`);
  if (isFollowed) {
    for await (const item of follow(session.server, "runLog", { variables: { id }, position: linePosition() }))
      show(item);
    return EXIT.done;
  }
  const lines = [];
  for await (const rows of pages(
    async (after) => (await send(session.server, "runLogPage", { id, after })).run?.log ?? null,
  )) {
    lines.push(...rows);
    if (session.output !== "json") rows.forEach(show);
  }
  if (session.output === "json") printJson(lines);
  else if (lines.length === 0) warn(`The log has no lines. To see the work on the node: ostler nodes why ${node}`);
  return EXIT.done;
}

async function runOf({ server }: Session, id: string, node: string): Promise<string> {
  for await (const rows of pages(
    async (after) => (await send(server, "runsOf", { id, after })).operation?.runs ?? null,
  )) {
    const found = rows.find(({ nodeName }) => nodeName.toLowerCase() === node.toLowerCase());
    if (found) return found.id;
  }
  throw new CliError(EXIT.refused, `Operation ${id} has no run of node ${safe(node)}.`);
}
