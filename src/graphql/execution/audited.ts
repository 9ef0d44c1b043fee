/**
 * The rows of the audit that follow from how a root field ends. A mutation that takes effect writes its row in the
 * transaction of the effect (src/engine/transaction.ts). Here every other end of a mutation gets its row, before it is
 * answered, and so does each denial of a query or a stream. If the row cannot be written, the answer is that error.
 */
import type { GraphQLError, GraphQLResolveInfo } from "graphql";
import type { AuditRecord, AuditedEnd } from "../../engine/audit/audit-row.ts";
import type { Refusal } from "../../errors.ts";
import { isRecord } from "../../runtime/json-values.ts";
import { isDatabaseUnavailable, isOutOfTime } from "../../store/postgres/connection-errors.ts";
import type { Context } from "../base/context.ts";
import { isForCaller, shown } from "../base/error-masking.ts";

type Args = Readonly<Record<string, unknown>>;

/** Carries out a mutation. `run` gets a context with its record. */
export async function audited(
  context: Context,
  args: Args,
  { fieldName }: GraphQLResolveInfo,
  run: (context: Context) => Promise<unknown>,
): Promise<unknown> {
  const record = recordOf(context, fieldName, args);
  const write = async (end: AuditedEnd) => {
    if (!record.isWritten) await context.services.engine.writeAudit(record.request, { targets: namedIn(args), ...end });
  };
  let payload: unknown;
  try {
    payload = await run({ ...context, record });
  } catch (error) {
    if (isForCaller(error)) await write(endOfError(error));
    // The answer is an error in any case.
    else if (!isDatabaseUnavailable(error) && !isOutOfTime(error))
      await write({ outcome: "FAILED", code: "INTERNAL" }).catch(() => {});
    throw error;
  }
  const end = endOf(payload as Payload);
  // A dry run changes nothing. That it was denied counts all the same.
  if (end.outcome === "FORBIDDEN" || !isDryRun(args)) await write(end);
  return payload;
}

/** Writes the row of a query that answers with a denial among its refusals. */
export async function noteDenial(context: Context, action: string, refusals: readonly Refusal[]): Promise<void> {
  if (refusals.some(({ code }) => code === "FORBIDDEN"))
    await context.services.engine.writeAudit(recordOf(context, action, {}).request, endOf({ refusals }));
}

/** Denied actions of a request. Aliases of a field would have a row each. */
const deniedOf = new WeakMap<Context, Set<string>>();

/** Writes the row of a denied query, stream or document, one of an action and request; then throws the denial. */
export async function denied(context: Context, action: string, error: GraphQLError): Promise<never> {
  const actions = deniedOf.get(context) ?? new Set<string>();
  deniedOf.set(context, actions);
  if (!actions.has(action)) {
    actions.add(action);
    await context.services.engine.writeAudit(recordOf(context, action, {}).request, endOfError(error));
  }
  throw error;
}

function recordOf(context: Context, action: string, { input }: Args): AuditRecord {
  const { actor, address, transport, requestId, document = null } = context;
  const { subject, displayName, identity } = actor;
  const given = isRecord(input) ? input["reason"] : undefined;
  const reason = typeof given === "string" ? given : undefined;
  const facts = { subject, displayName, credential: identity.id, address, transport, requestId, document };
  return { request: { ...facts, action, reason }, isWritten: false };
}

/** Members of payloads by which requests are judged. */
interface Payload {
  readonly refusals?: readonly Refusal[];
  readonly replayed?: boolean;
  readonly operationId?: string | null;
  readonly operationIds?: readonly string[];
  readonly results?: readonly { readonly ref: string }[];
}

function endOf({ refusals = [], replayed = false, operationId, operationIds, results = [] }: Payload): AuditedEnd {
  const first = refusals.find(({ code }) => code === "FORBIDDEN") ?? refusals[0];
  return {
    outcome: first ? (first.code === "FORBIDDEN" ? "FORBIDDEN" : "REFUSED") : replayed ? "REPLAYED" : "ACCEPTED",
    code: first?.code,
    reason: first?.message,
    operationId: operationId ?? operationIds?.[0],
    ...(results.length > 0 && { targets: results.map(({ ref }) => ref) }),
  };
}

function endOfError(error: GraphQLError): AuditedEnd {
  const { message, extensions } = shown(error);
  const code = String(extensions["code"]);
  const isDenied = code === "FORBIDDEN" || code === "UNAUTHENTICATED";
  return { outcome: isDenied ? "FORBIDDEN" : "REFUSED", code, reason: message };
}

function isDryRun({ input }: Args): boolean {
  return isRecord(input) && input["dryRun"] === true;
}

/** Members of inputs that name objects, and those in which such members are. */
const NAMES = ["names", "ids", "name", "id", "account", "principal", "addresses", "operationId"];
const HOLDERS = ["nodes", "work", "cluster", "runbook", "image", "images", "tokens"];

/** The names in a request, for one that ended before it was looked up. */
function namedIn({ input }: Args): readonly string[] {
  const textsOf = (value: unknown): string[] =>
    Array.isArray(value) ? value.flatMap(textsOf) : typeof value === "string" ? [value] : [];
  const namesOf = (value: unknown): string[] => {
    if (Array.isArray(value)) return value.flatMap(namesOf);
    if (!isRecord(value)) return [];
    return [...HOLDERS.flatMap((name) => namesOf(value[name])), ...NAMES.flatMap((name) => textsOf(value[name]))];
  };
  return namesOf(input);
}
