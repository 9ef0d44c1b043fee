/** A group that needs a person, as a line. */
import { operationName } from "./operations.ts";
import { sentenceCase } from "./states.ts";

interface Group {
  readonly kind: string;
  readonly state: string | null;
  readonly step: string | null;
  readonly cause: string;
  readonly causeCount: number;
  /** Of pending changes. */
  readonly cluster?: { readonly name: string } | null;
  readonly operation?: Parameters<typeof operationName>[0] | null;
}

const KINDS: Readonly<Record<string, string>> = {
  STUCK: "stuck",
  WAITING: "waits to begin",
  ON_HOLD: "on hold",
  WAVES_HALTED: "waves are halted",
  STOPPED: "stopped",
  FAULT: "fault",
  POWER_DRIFT: "another power than was asked for",
  DISAPPEARED: "disappeared",
  IDENTITY_CONFLICT: "the same machine as another node",
  MAINTENANCE: "long in maintenance",
};

/** The members by which the service forms groups. */
interface Grouping extends Pick<Group, "kind" | "state" | "step" | "cluster"> {
  readonly code: string | null;
  readonly driver: string | null;
  readonly detail: string | null;
  readonly operation: { readonly uuid: string } | null;
}

/** Differs for two groups. */
export function groupKey({ kind, code, step, driver, state, detail, operation, cluster }: Grouping): string {
  return JSON.stringify([kind, code, step, driver, state, detail, operation?.uuid, cluster?.name]);
}

/** `write_image: no space left, and 2 other causes`, `Commission oslo: waves are halted: 1 node failed`. */
export function groupText({ kind, state, step, cause, causeCount, cluster, operation }: Group): string {
  const where = cluster
    ? `not as cluster ${cluster.name} wants it`
    : kind === "FAILED"
      ? (step ?? sentenceCase(state ?? "FAILED"))
      : (KINDS[kind] ?? sentenceCase(kind));
  const others = causeCount > 1 ? `, and ${causeCount - 1} other ${causeCount === 2 ? "cause" : "causes"}` : "";
  // Failures are of one operation only on its own page.
  const whose = operation && kind !== "FAILED" ? `${operationName(operation)}: ` : "";
  return `${whose}${where}: ${cause}${others}`;
}

const FILTERS: Readonly<Record<string, string>> = {
  FAILED: "is:error",
  FAULT: "is:faulty",
  POWER_DRIFT: "is:drifted",
  MAINTENANCE: "is:maintenance",
};

/** Of a list that has all nodes of a group, and others like them; null if there is none. */
export function filterOf({ kind, cluster }: Pick<Group, "kind" | "cluster">): string | null {
  return FILTERS[kind] ?? (cluster ? `cluster:"${cluster.name}"` : null);
}

const FIRST = ["FAILED", "FAULT"];
/** The kinds of groups but for PENDING_CHANGES: nothing is wrong with these nodes. */
export const PROBLEMS = [...FIRST, ...Object.keys(KINDS).filter((kind) => !FIRST.includes(kind))];
const rankOf = ({ kind }: Pick<Group, "kind">) => (FIRST.includes(kind) ? 0 : 1);

/** Broken nodes first, then work that waits for a person; the service has the largest groups first. */
export function byUrgency<One extends Pick<Group, "kind">>(groups: readonly One[]): readonly One[] {
  return groups.toSorted((a, b) => rankOf(a) - rankOf(b));
}
