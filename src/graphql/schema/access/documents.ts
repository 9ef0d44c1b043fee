/** Trusted documents: requests that administrators register, and that callers send by their ids. */
import type { DocumentsEdited } from "../../../engine/access/documents.ts";
import { allDocuments, documentsByIds } from "../../../store/access/documents.ts";
import type { DocumentRow } from "../../../store/access/documents.ts";
import { boundTokens } from "../../../store/access/tokens.ts";
import type { KnownToken } from "../../../store/access/tokens.ts";
import type { DocumentKind } from "../../../store/records.ts";
import { builder, needs } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { readDocument } from "../../execution/document-reading.ts";
import { addAccessMutation } from "./access-mutation.ts";
import { AccessTokenRef } from "./accounts.ts";

const DocumentKindEnum = builder.enumType("DocumentKind", {
  description: "Kind of an operation.",
  values: {
    QUERY: { description: "Reads." },
    MUTATION: { description: "Writes." },
    SUBSCRIPTION: { description: "Stream." },
  } satisfies Record<DocumentKind, object>,
});

interface Document extends DocumentRow {
  readonly tokens: readonly KnownToken[];
}

const TrustedDocumentRef = builder.objectRef<Document>("TrustedDocument").implement({
  description: "Registered document, which callers send by its id.",
  fields: (t) => ({
    id: t.exposeString("id", {
      description: "`sha256:` and the hash of the text in hexadecimal, for `documentId` of a request.",
    }),
    text: t.exposeString("text", { description: "GraphQL text, exactly as it was registered." }),
    operation: t.exposeString("operation", {
      nullable: true,
      description: "Name: the one that it was given, or that of its operation; null if it has none.",
    }),
    kind: t.expose("kind", { type: DocumentKindEnum, description: "What its operation does." }),
    registeredAt: t.expose("registeredAt", { type: "DateTime", description: "Time of its registration." }),
    registeredBy: t.exposeString("registeredBy", { description: "Who registered it." }),
    tokens: t.field({
      type: [AccessTokenRef],
      description: "Tokens bound to it that can be used. While there is one, it is not removed.",
      resolve: ({ tokens }) => [...tokens],
    }),
    flaws: t.stringList({
      description: "Why this version of the service refuses it, as sentences; empty if it is executed.",
      resolve: ({ text }, _args, { services }) => [...readDocument(services.schema, text).flaws],
    }),
  }),
});

/** Documents with their tokens, which are read once for all. */
async function withTokens(rows: Promise<DocumentRow[]>, { services }: Context): Promise<Document[]> {
  const [documents, tokens] = await Promise.all([rows, boundTokens(services.database.reader)]);
  return documents.map((document) => ({
    ...document,
    tokens: tokens.filter((token) => token.documents?.some(({ id }) => id === document.id)),
  }));
}

builder.queryField("trustedDocuments", (t) =>
  t.field({
    type: [TrustedDocumentRef],
    ...needs("ADMIN"),
    description: "All registered documents, sorted by name.",
    resolve: (_root, _args, context) => withTokens(allDocuments(context.services.database.reader), context),
  }),
);

// ---- mutations

const DocumentInput = builder.inputType("DocumentInput", {
  description: "Document to register.",
  fields: (t) => ({
    text: t.string({
      required: true,
      description: "GraphQL text with one operation and its fragments, without introspection; at most 64 KiB.",
    }),
    name: t.string({ description: "Name for people, at most 1000 characters. Default: that of the operation." }),
  }),
});

addAccessMutation("registerDocuments", {
  description:
    "Register documents, and remove others: all of the request or nothing. A text that is registered already stays as it is.",
  input: builder.inputType("RegisterDocumentsInput", {
    description: "Documents to register and to remove; at most 1000 are registered.",
    fields: (t) => ({
      documents: t.field({ type: [DocumentInput], description: "Documents to register. Default: none." }),
      remove: t.stringList({ description: "By `TrustedDocument.id`; removed first. Default: none." }),
    }),
  }),
  argument: "The documents.",
  payload: payloadType<DocumentsEdited>("registerDocuments", (t) => ({
    documents: t.field({
      type: [TrustedDocumentRef],
      description: "The documents that the request has, as they are registered; empty if it was refused.",
      resolve: async ({ ids }, _args, context) => {
        const documents = await withTokens(documentsByIds(context.services.database.reader, ids), context);
        return documents.toSorted((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
      },
    }),
    ...refusalFields(t, "Every reason why the request was refused; empty if it succeeded."),
  })),
  run: ({ documents, remove }, engine, caller, { services }) =>
    engine.registerDocuments(caller, { documents: documents ?? [], remove: remove ?? [] }, (text) =>
      readDocument(services.schema, text),
    ),
});
