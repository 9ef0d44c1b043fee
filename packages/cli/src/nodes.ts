/** Commands that read nodes. */
import { follow, linePosition, send } from "./api.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import type { Answers } from "./requests.ts";
import { filterOf } from "./selection.ts";
import type { Selection } from "./selection.ts";
import { chooseColumns, pages, print, printJson, printTable, warn } from "./session.ts";
import type { Column, Session } from "./session.ts";
import { commandOf, commandWords } from "./verbs.ts";
import { paint, safe, safeJson, stateColor, timeText } from "./text.ts";

type Node = Answers["nodes"]["nodes"]["nodes"][number];

const PAGE = 200;

const COLUMNS: Readonly<Record<string, Column<Node>>> = {
  name: { title: "NAME", value: ({ name }) => name },
  state: { title: "STATE", value: ({ state }) => state },
  cluster: { title: "CLUSTER", value: ({ cluster }) => cluster?.name ?? "" },
  group: { title: "GROUP", value: ({ hostGroup }) => hostGroup ?? "" },
  power: { title: "POWER", value: ({ powerState }) => powerState },
  presence: { title: "PRESENCE", value: ({ presence }) => presence },
  stage: { title: "STAGE", value: ({ stage }) => stage },
  model: { title: "MODEL", value: ({ model }) => model ?? "" },
  driver: { title: "DRIVER", value: ({ drivers }) => drivers.map(({ name }) => name).join(",") },
  labels: { title: "LABELS", value: ({ labels }) => labels.map(({ key, value }) => `${key}=${value}`).join(" ") },
  marks: {
    title: "MARKS",
    value: (node) =>
      [node.maintenance && "maintenance", node.protected && "protected", node.retired && "retired"]
        .filter(Boolean)
        .join(","),
  },
  work: {
    title: "WORK",
    value: ({ currentRun }) =>
      currentRun === null
        ? ""
        : [
            currentRun.operation.kind,
            currentRun.operation.uuid.slice(0, 8),
            currentRun.currentStep?.name ?? currentRun.state,
            currentRun.currentStep?.progressPercent == null ? "" : `${currentRun.currentStep.progressPercent}%`,
          ]
            .filter(Boolean)
            .join(" "),
  },
  updated: { title: "UPDATED", value: ({ updatedAt }, isTerminal) => timeText(updatedAt, isTerminal) },
  error: { title: "ERROR", value: ({ lastError }) => lastError?.message ?? "" },
  uuid: { title: "UUID", value: ({ uuid }) => uuid },
};
export const NODE_COLUMNS = Object.keys(COLUMNS);
const STANDARD = ["name", "state", "cluster", "group", "power", "marks", "work", "error"];

const ORDERS: Readonly<Record<string, string>> = {
  name: "NATURAL_NAME",
  state: "STATE",
  cluster: "CLUSTER",
  updated: "UPDATED_AT",
  created: "CREATED_AT",
};

function orderOf({ sort = "name" }: Session): object {
  const field = sort.replace(/^-/, "");
  const order = Object.hasOwn(ORDERS, field) ? ORDERS[field] : undefined;
  if (order === undefined)
    throw usageError(
      `--sort cannot be ${safe(sort)}. Use ${Object.keys(ORDERS).join(", ")}, with - in front for descending.`,
    );
  return { field: order, direction: sort.startsWith("-") ? "DESC" : "ASC" };
}

/** Reports the names of a selection that were not found: reads skip them. */
function warnUnknown(selection: Selection | null, found: ReadonlySet<string>): void {
  if (selection?.kind !== "names") return;
  const unknown = selection.names.filter((name) => !found.has(name.toLowerCase()));
  if (unknown.length > 0) warn(`Unknown nodes, skipped: ${unknown.join(" ")}`);
}

export async function getNodes(session: Session, selection: Selection | null): Promise<number> {
  const columns = chooseColumns(COLUMNS, session, STANDARD);
  const variables = { filter: filterOf(selection), first: PAGE, orderBy: orderOf(session) };
  const found = new Set<string>();
  const rows: Node[] = [];
  let written = 0;
  const list = pages(async (after) => (await send(session.server, "nodes", { ...variables, after })).nodes);
  try {
    for await (const nodes of list) {
      for (const node of nodes) {
        found.add(node.name.toLowerCase());
        if (session.output === "names") print(safe(node.name));
        else if (session.output === "table") rows.push(node);
        else print(`${written === 0 ? "[" : ","}${safeJson(node)}`);
        written += 1;
      }
    }
  } finally {
    // A document that is cut is one too.
    if (session.output === "json" && written > 0) print("]");
  }
  if (session.output === "json" && written === 0) print("[]");
  if (session.output === "table") printTable(session, columns, rows);
  if (session.output === "table" && written === 0) warn("No nodes.");
  warnUnknown(selection, found);
  return EXIT.done;
}

export async function showNode(session: Session, name: string): Promise<number> {
  const { node } = await send(session.server, "node", { name });
  if (!node) throw new CliError(EXIT.refused, `Node ${safe(name)} does not exist.`);
  const lists = { operations: node.operations.nodes, transitions: node.transitions.nodes };
  printFields(session, session.output === "json" ? node : { ...node, ...lists });
  return EXIT.done;
}

/** An object as lines of a name and a value, or as JSON. */
export function printFields(session: Session, object: Readonly<Record<string, unknown>>): void {
  if (session.output === "json") return printJson(object, 2);
  for (const [field, value] of Object.entries(object)) {
    if (value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0)) continue;
    const lines = Array.isArray(value) ? (value as readonly unknown[]) : [value];
    for (const [index, line] of lines.entries()) {
      const text = safe(fieldText(line));
      const shown = session.hasColor && field === "state" ? paint(text, stateColor(text)) : text;
      print(`${(index === 0 ? field : "").padEnd(20)} ${shown}`);
    }
  }
}

function fieldText(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return value.map(fieldText).join(", ");
  return Object.entries(value)
    .filter(([, one]) => one !== null)
    .map(([key, one]) => `${key}: ${typeof one === "object" ? fieldText(one) : String(one)}`)
    .join("  ");
}

/** Mutations that help most, where they are allowed; the first leads on. */
const NEXT = ["releaseHolds", "restart", "commissionNodes"];

/** Why each node is as it is, and what can be done. */
export async function explainNodes(session: Session, selection: Selection | null): Promise<number> {
  const found = new Set<string>();
  const variables = { filter: filterOf(selection), first: 20 };
  const nodes = [];
  for await (const rows of pages(
    async (after) => (await send(session.server, "nodesWhy", { ...variables, after })).nodes,
  ))
    nodes.push(...rows);
  for (const { name, state, presence, maintenance, fault, lastError, currentRun, transitions, actions } of nodes) {
    found.add(name.toLowerCase());
    if (session.output === "json") continue;
    const allowed = actions.filter(
      (one) => one.allowed && one.mutation !== "abort" && (currentRun || one.mutation !== "stop"),
    );
    const action = [...(maintenance ? ["clearMaintenance"] : []), ...NEXT]
      .map((wanted) => allowed.find(({ mutation }) => mutation === wanted))
      .concat(allowed)
      .find((one) => one !== undefined);
    const run = currentRun ?? (state === "STOPPED" ? transitions.nodes[0]?.run : null);
    const reasons = [
      ...(run?.currentStep
        ? [
            `${run.operation.kind} ${run.operation.uuid.slice(0, 8)} ${currentRun ? "at" : "stopped before"} ${run.currentStep.name}`,
          ]
        : []),
      ...(currentRun?.waiting ? [commandWords(currentRun.waiting.description)] : []),
      ...(maintenance ? [`in maintenance: ${maintenance.reason}`] : []),
      ...(presence === "DISAPPEARED" ? ["reported as disappeared by monitoring"] : []),
      ...(fault ? [commandWords(fault.message)] : []),
      ...(lastError ? [commandWords(lastError.message)] : []),
    ];
    // A node that is where it was sent needs nothing: each verb would disturb it.
    if (/^(ACTIVE|DECOMMISSIONED)$/.test(state) && reasons.length === 0) reasons.push("needs nothing");
    else if (action) reasons.push(`next: ${commandOf(action.mutation)} ${name}`);
    // A fault and the last error may have one text.
    const texts = new Set(reasons.map((reason) => reason.replace(/\.$/, "")));
    const shown = session.hasColor ? paint(state, stateColor(state)) : state;
    print(`${safe(name)}  ${shown}  ${safe([...texts].join("; "))}`);
  }
  if (session.output === "json") printJson(nodes);
  warnUnknown(selection, found);
  return EXIT.done;
}

/** The states of nodes, then each change of them. */
export async function watchNodes(session: Session, selection: Selection | null): Promise<number> {
  let states: object[] = [];
  const position = linePosition({
    snapshot: true,
    onBegin: () => {
      states = [];
    },
  });
  const variables = { filter: filterOf(selection) };
  const show = (item: Answers["nodeTransitions"]["item"]) => {
    if (session.output === "json") return printJson(item);
    if (item.node) return print(`${safe(item.node.name)}  ${item.node.state}`);
    const { at = "", nodeName = "", from, to, event, step, reason } = item;
    const state = session.hasColor ? paint(to ?? "deleted", stateColor(to ?? "")) : (to ?? "deleted");
    const time = session.isTerminal ? new Date(at).toLocaleTimeString("en-GB") : at;
    const why = [event, step, reason].filter((one) => one != null).join("  ");
    return print(`${time}  ${safe(nodeName)}  ${from ?? "new"} → ${state}  ${safe(why)}`);
  };
  for await (const item of follow(session.server, "nodeTransitions", { variables, position })) {
    if (item.__typename === "NodeSnapshot") states.push(item);
    if (item.snapshotComplete === true) {
      const shown = states.splice(0) as (typeof item)[];
      shown.forEach(show);
      if (shown.length === 0) warn("No nodes.");
      warnUnknown(selection, new Set(shown.map(({ node }) => node?.name.toLowerCase() ?? "")));
    }
    if (item.__typename === "Transition") show(item);
  }
  return EXIT.done;
}
