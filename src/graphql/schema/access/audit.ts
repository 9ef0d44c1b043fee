/** The audit: the list of its entries, and their stream. */
import { auditStream } from "../../../feed/kinds/audit-stream.ts";
import { AUDIT_OUTCOMES, AUDIT_TRANSPORTS } from "../../../store/log/audit-records.ts";
import type { AuditEdit } from "../../../store/log/audit-records.ts";
import { AUDIT_LOG, auditCursor, auditPage, countAudit } from "../../../store/log/audit.ts";
import type { AuditFilter, AuditRow } from "../../../store/log/audit.ts";
import { builder, enumValues, givenMembers, needs } from "../../base/builder.ts";
import {
  auditCursorOf,
  connectionType,
  connectionWith,
  numberedRequest,
  pageArgs,
  TRANSITIONS_PAGE_MAX,
} from "../../base/connection.ts";
import { keyOf, uuidOrNone } from "../../base/ids.ts";
import { logCursorText } from "../../base/log-cursor.ts";
import { operationField } from "../../base/shared-fields.ts";
import { StreamBookmarkRef, StreamResetRef } from "../streams/streams.ts";
import { requireKept } from "../work/transition.ts";

const AuditOutcomeEnum = builder.enumType("AuditOutcome", {
  description: "How a request ended.",
  values: enumValues(AUDIT_OUTCOMES),
});

const AuditTransportEnum = builder.enumType("AuditTransport", {
  description: "How a request came.",
  values: enumValues(AUDIT_TRANSPORTS),
});

const AuditEditRef = builder.objectRef<AuditEdit>("AuditEdit").implement({
  description: "Change of one object: the values that differ. Secrets are `***`, and long values are their length.",
  fields: (t) => ({
    target: t.exposeString("target", { description: "Name of the object before the change." }),
    before: t.expose("before", {
      type: "JSON",
      nullable: true,
      description: "Values before the change; null if there was no object.",
    }),
    after: t.expose("after", {
      type: "JSON",
      nullable: true,
      description: "Values after the change; null after a deletion.",
    }),
  }),
});

const AuditEntryRef = builder.objectRef<AuditRow>("AuditEntry");
builder.objectType(AuditEntryRef, {
  description:
    "What a caller did or was refused. Written in the same database transaction as the effect; it never changes.",
  isTypeOf: (value) => typeof value === "object" && value !== null && "targetCount" in value,
  fields: (t) => ({
    cursor: t.string({
      description: "Position in the audit. Pass it as `after`. Positions follow the commit order without gaps.",
      resolve: (row) => logCursorText(auditCursor(row)),
    }),
    at: t.expose("at", { type: "DateTime", description: "Time of the database." }),
    subject: t.exposeString("subject", {
      description: "Who did it, as `Actor.subject`; `service` or `shell` without a request, `unknown` if not known.",
    }),
    displayName: t.exposeString("displayName", {
      nullable: true,
      description: "Name of the subject for people, as it was then; null if there is none.",
    }),
    credential: t.exposeString("credential", {
      nullable: true,
      description:
        "The credential: `AccessToken.tokenId`, `token` for that of the configuration, or a session, which is the target of its LOGIN; null without one.",
    }),
    address: t.exposeString("address", {
      nullable: true,
      description: "Address of the sender; null without a request.",
    }),
    transport: t.expose("transport", { type: AuditTransportEnum, description: "How the request came." }),
    requestId: t.exposeString("requestId", {
      nullable: true,
      description: "The request, as in its header `x-request-id` and in the log; null without one.",
    }),
    document: t.exposeString("document", {
      nullable: true,
      description: "Hash of the registered document that was sent; null if it was not a registered one.",
    }),
    action: t.exposeString("action", {
      description:
        "Name of the mutation, of the denied query or stream, path of a denied page, DOCUMENT (denied), LOGIN, LOGOUT, LOGIN_FAILED, START, or the command in a shell.",
    }),
    targets: t.stringList({
      description: "Names of what it was done to, or would have been; the first 100.",
      resolve: ({ targets }) => targets,
    }),
    targetCount: t.exposeInt("targetCount", { description: "Number of all targets." }),
    operation: operationField(
      t,
      "Operation that it began or concerns, the first one of several; null if there is none.",
    ),
    outcome: t.expose("outcome", { type: AuditOutcomeEnum, description: "How it ended." }),
    // Not `code`: `StreamReset.code` has another type, and a query could not select both from the union.
    errorCode: t.exposeString("code", { nullable: true, description: "Code of the first error; null without one." }),
    reason: t.exposeString("reason", {
      nullable: true,
      description: "Message of that error, or the reason that the request gave; null without both.",
    }),
    edits: t.field({
      type: [AuditEditRef],
      description: "What an edit changed, at most 100 objects and 16 KiB; empty for other requests.",
      resolve: ({ change }) => [...(change?.edits ?? [])],
    }),
    editsComplete: t.boolean({
      description: "Whether `edits` has all that it changed.",
      resolve: ({ change }) => change?.complete ?? true,
    }),
  }),
});

const AuditConnection = connectionType("AuditEntry", AuditEntryRef);

const AuditFilterInput = builder.inputType("AuditFilter", {
  description:
    "Filter for entries of the audit. The given fields are combined with AND; an empty list matches nothing.",
  fields: (t) => ({
    subjects: t.stringList({ description: "By one of these." }),
    actions: t.stringList({ description: "With one of these actions." }),
    outcomes: t.field({ type: [AuditOutcomeEnum], description: "With one of these outcomes." }),
    target: t.string({ description: "With this name among `targets`." }),
    operationId: t.id({ description: "That began or concern this operation: global ID or UUID." }),
    requestId: t.string({ description: "With this `AuditEntry.requestId`." }),
    address: t.string({ description: "From this address." }),
    since: t.field({ type: "DateTime", description: "At this time or later." }),
    until: t.field({ type: "DateTime", description: "Before this time." }),
  }),
});

function filterOf(filter: typeof AuditFilterInput.$inferInput | null | undefined): AuditFilter {
  const { operationId, ...plain } = givenMembers(filter ?? {});
  return { ...plain, ...(operationId !== undefined && { operationId: uuidOrNone(keyOf("Operation", operationId)) }) };
}

builder.queryField("audit", (t) =>
  t.field({
    type: AuditConnection,
    ...needs("ADMIN"),
    description: "Entries of the audit, oldest first; the newest ones with `last`.",
    args: {
      filter: t.arg({ type: AuditFilterInput, description: "Only matching entries; by default all." }),
      ...pageArgs(t.arg, TRANSITIONS_PAGE_MAX),
    },
    async resolve(_root, { filter, ...args }, { services }) {
      const matching = filterOf(filter);
      const cursor = auditCursorOf(args.after);
      const request = numberedRequest(args, TRANSITIONS_PAGE_MAX, (text) => auditCursorOf(text)?.position);
      // What has been answered is in the list.
      await services.tail.audit.numberAll();
      const { reader } = services.database;
      const page = await auditPage(reader, matching, request);
      // Checked after reading: rows may have been deleted in between.
      if (cursor !== undefined) await requireKept(reader, cursor, AUDIT_LOG);
      return connectionWith(
        page,
        (row) => logCursorText(auditCursor(row)),
        () => countAudit(reader, matching),
      );
    },
  }),
);

const AuditStreamItemRef = builder.unionType("AuditStreamItem", {
  description:
    "Item of the stream `auditEntries`. Every item has a cursor: after a disconnect, subscribe again with `after: <last cursor>`.",
  types: [AuditEntryRef, StreamBookmarkRef, StreamResetRef],
  resolveType: (item) =>
    "kind" in item ? { bookmark: "StreamBookmark", reset: "StreamReset" }[item.kind] : "AuditEntry",
});

builder.subscriptionField("auditEntries", (t) =>
  t.field({
    type: AuditStreamItemRef,
    ...needs("ADMIN"),
    description:
      "Entries of the audit in commit order, without gaps or repetition: after a cursor, or from now on without one.",
    args: {
      after: t.arg.string({ description: "Cursor of the last item received, or of an entry of the list." }),
      filter: t.arg({ type: AuditFilterInput, description: "Only matching entries; by default all." }),
    },
    subscribe: (_root, { after, filter }, { services }) =>
      auditStream(services, { after: auditCursorOf(after), filter: filter ? filterOf(filter) : undefined }),
    resolve: (item) => (item.kind === "entry" ? item.row : item),
  }),
);
