/**
 * Fields of a node that the service makes of a few facts, in lists that the database writes as JSON (node-json.ts): the
 * SQL of the facts, and their type. Resolvers make the same of a row; `test/graphql/composed-lists.test.ts` compares
 * both.
 */
import { sql } from "drizzle-orm";
import type { Stage } from "../../lifecycle/cluster-state.ts";
import type { NodeFault } from "../../lifecycle/faults.ts";
import type { IdentityConflict } from "../../lifecycle/identity.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { NULL_TEXT, dateText, listText, plainStringText, scalarText, stringText } from "../json-text.ts";
import type { ComposedField } from "../json-text.ts";
import type { NodeRow } from "./node-fields.ts";
import { STEP_WAITS } from "../runs/runs.ts";
import { nodes, operations, runs } from "../tables.ts";

/** The drivers that a node names. */
export type DriverFacts = readonly [
  driver: NodeRow["driver"],
  borrowed: NodeRow["borrowed"],
  fallbacks: NodeRow["fallbacks"],
];

/** All that verbs are judged by, except the name. */
export type VerbFacts = readonly [
  ...drivers: DriverFacts,
  state: NodeState,
  stage: Stage,
  inMaintenance: boolean,
  isProtected: boolean,
  isRetired: boolean,
  hasDisappeared: boolean,
  fault: readonly [kind: NodeFault, since: string, message: string] | null,
  busyWith: readonly [operationId: string, kind: OperationKind, isEnding: boolean, isWaiting: boolean] | null,
  identityConflict: IdentityConflict | null,
];

const DRIVERS = [stringText(nodes.driver), sql`${nodes.borrowed}::text`, sql`${nodes.fallbacks}::text`];

const FAULT = listText([
  plainStringText(nodes.faultKind),
  dateText(nodes.faultSince),
  stringText(sql`coalesce(${nodes.faultMessage}, '')`),
]);

const BUSY_WITH = listText([
  sql`'"' || ${operations.id} || '"'`,
  plainStringText(operations.kind),
  scalarText(sql`(${runs.interrupt} is not distinct from 'ABORT' or ${runs.interruptFailure} is not null)`),
  scalarText(STEP_WAITS),
]);

const nodeName = stringText(nodes.name);

export const COMPOSED_FIELDS = {
  drivers: { facts: listText(DRIVERS), nodeName, fields: { name: {}, interfaces: {}, fallbackFor: {} } },
  verbs: {
    facts: listText([
      ...DRIVERS,
      plainStringText(nodes.state),
      plainStringText(nodes.stage),
      scalarText(sql`${nodes.maintenanceSince} is not null`),
      scalarText(nodes.isProtected),
      scalarText(sql`${nodes.retiredReason} is not null`),
      scalarText(sql`${nodes.presence} = 'DISAPPEARED'`),
      sql`case when ${nodes.faultKind} is null or ${nodes.faultSince} is null then ${NULL_TEXT} else ${FAULT} end`,
      sql`coalesce((select ${BUSY_WITH} from ${runs} join ${operations} on ${operations.id} = ${runs.operationId} where ${runs.nodeId} = ${nodes.id} and ${runs.finishedAt} is null), ${NULL_TEXT})`,
      scalarText(nodes.identityConflict),
    ]),
    nodeName,
    fields: { verb: {}, powerAction: {}, allowed: {}, code: {}, reason: {} },
  },
} satisfies Readonly<Record<string, ComposedField>>;

export type ComposedName = keyof typeof COMPOSED_FIELDS;
