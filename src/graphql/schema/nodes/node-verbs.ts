/** `Node.verbs`: for each verb, whether it would be accepted for a node now. */
import { sharedLackOf } from "../../../access/access.ts";
import type { SharedAccess } from "../../../access/access.ts";
import type { ErrorCode } from "../../../errors.ts";
import { factsOf } from "../../../engine/views.ts";
import { judge } from "../../../lifecycle/admission.ts";
import type { NodeFacts } from "../../../lifecycle/admission.ts";
import { NODE_VERBS, POWER_CHANGES } from "../../../lifecycle/verbs.ts";
import type { OperationKind, PowerChange } from "../../../lifecycle/verbs.ts";
import type { NodeRow } from "../../../store/nodes/nodes.ts";
import { stepWaits } from "../../../store/runs/runs.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { builder } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import { ErrorCodeEnum, OperationKindEnum, PowerActionEnum } from "../../base/enums.ts";
import { NodeRef } from "../../base/refs.ts";

interface VerbVerdict<Verb extends OperationKind = OperationKind> {
  readonly verb: Verb;
  readonly powerAction: PowerChange | null;
  readonly refusal: { readonly code: ErrorCode; readonly message: string } | null;
}

/** The values of a verdict's fields; lists that the database writes take them too. */
export const VERDICT_VALUES = {
  verb: ({ verb }: VerbVerdict) => verb,
  powerAction: ({ powerAction }: VerbVerdict) => powerAction,
  allowed: ({ refusal }: VerbVerdict) => refusal === null,
  code: ({ refusal }: VerbVerdict) => refusal?.code ?? null,
  reason: ({ refusal }: VerbVerdict) => refusal?.message ?? null,
};

const VerbVerdictRef = builder.objectRef<VerbVerdict>("VerbVerdict").implement({
  description: "Result of checking whether a verb would be accepted for a node now.",
  fields: (t) => ({
    verb: t.field({
      type: OperationKindEnum,
      description: "Verb that was checked.",
      resolve: VERDICT_VALUES.verb,
    }),
    powerAction: t.field({
      type: PowerActionEnum,
      nullable: true,
      description: "Power action that was checked; null for verbs other than POWER.",
      resolve: VERDICT_VALUES.powerAction,
    }),
    allowed: t.boolean({
      description: "Whether the verb would be accepted.",
      resolve: VERDICT_VALUES.allowed,
    }),
    code: t.field({
      type: ErrorCodeEnum,
      nullable: true,
      description: "Reason why the verb would be refused; null if it is allowed.",
      resolve: VERDICT_VALUES.code,
    }),
    reason: t.string({
      nullable: true,
      description: "The reason as a sentence for people; null if the verb is allowed.",
      resolve: VERDICT_VALUES.reason,
    }),
  }),
});

/** The operation of an unfinished run, as decisions take it; null if there is none. */
export async function busyWith(run: RunRow | null, { load }: Context) {
  const operation = run && (await load.operation.load(run.operationId));
  if (!run || !operation) return null;
  const isEnding = run.interrupt === "ABORT" || run.interruptFailure !== null;
  return { operationId: operation.id, kind: operation.kind, isEnding, isWaiting: stepWaits(run) };
}

/** The facts by which verbs are judged for a node. */
export async function factsAbout(node: NodeRow, run: RunRow | null, context: Context): Promise<NodeFacts> {
  return factsOf(node, context.services.registry.compose(node), await busyWith(run, context));
}

/** `access`: of the caller, who may lack the scope. */
export function verdictsOf<Verb extends OperationKind>(
  facts: NodeFacts,
  verbs: readonly Verb[],
  access: SharedAccess,
): VerbVerdict<Verb>[] {
  const lack = sharedLackOf("Every verb", "OPERATE", access);
  const forbidden = lack === null ? null : ({ code: "FORBIDDEN", message: lack } as const);
  const asked = verbs.flatMap((verb) =>
    (verb === "POWER" ? (Object.keys(POWER_CHANGES) as PowerChange[]) : [null]).map((powerAction) => ({
      verb,
      powerAction,
    })),
  );
  return asked.map(({ verb, powerAction }) => {
    const verdict = judge(facts, { verb, options: powerAction === null ? {} : { powerAction }, force: false });
    return { verb, powerAction, refusal: forbidden ?? (verdict.admitted ? null : verdict.refusal) };
  });
}

builder.objectField(NodeRef, "verbs", (t) =>
  t.field({
    type: [VerbVerdictRef],
    description:
      "Every verb with the result of checking whether it would be accepted now. `actions` also has abort, stop, restart and others.",
    resolve: async (node, _args, context) =>
      verdictsOf(
        await factsAbout(node, await context.load.currentRun.load(node.id), context),
        NODE_VERBS,
        context.actor,
      ),
  }),
);
