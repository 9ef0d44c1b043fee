/** Trusted documents: GraphQL requests that administrators register, and that callers send by their ids. */
import { RefusalError, flawIf, invalidInput, notFound } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { documentIdOf } from "../../runtime/document-id.ts";
import { countDocuments, deleteDocumentRows, documentsByIds, insertDocuments } from "../../store/access/documents.ts";
import type { DocumentRow } from "../../store/access/documents.ts";
import { boundTokens } from "../../store/access/tokens.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { MASK } from "../../store/secrets/secrets.ts";
import type { BoundDocument, DocumentKind } from "../../store/records.ts";
import { editOf } from "../audit/edits.ts";
import { requireNone } from "../input/edits.ts";
import { listed } from "../input/name-rules.ts";
import { DESCRIPTION_LENGTH_MAX, sizeFlaws, textFlaws } from "../input/size-limits.ts";
import type { Caller } from "../transaction.ts";
import { changeAccess } from "./change-access.ts";
import type { AccessContext } from "./change-access.ts";

/** Registered documents of a site. */
const DOCUMENTS_MAX = 1_000;
/** Strings of a document, which may be secrets. `trustedDocuments` has the text. */
const STRINGS = /"""[^]*?"""|"(?:[^"\\\n]|\\.)*"/g;
/** Documents of one token. */
const DOCUMENTS_OF_TOKEN_MAX = 100;

interface NewDocument {
  readonly text: string;
  /** Default: the name of its operation. */
  readonly name?: string | null | undefined;
}

/** A document as the schema knows it. */
export interface DocumentReading {
  readonly operation: string | null;
  readonly kind: DocumentKind;
  /** Why it cannot be executed, as sentences. */
  readonly flaws: readonly string[];
}

export type DocumentsEdited = { readonly ids: readonly string[]; readonly refusals: readonly Refusal[] };

/** Removes documents, then registers others. Both happen, or nothing. */
export async function registerDocuments(
  context: AccessContext,
  caller: Caller,
  { documents, remove }: { readonly documents: readonly NewDocument[]; readonly remove: readonly string[] },
  read: (text: string) => DocumentReading,
): Promise<DocumentsEdited> {
  requireNone(lengthFlaws(documents.length, remove.length));
  const rows = documents.map(({ text, name }, index) => {
    const path = ["input", "documents", String(index)];
    const sizes = [
      ...sizeFlaws("The document", text, [...path, "text"]),
      ...textFlaws("name", name, DESCRIPTION_LENGTH_MAX, path),
    ];
    if (sizes.length > 0) return { flaws: sizes };
    const { operation, kind, flaws } = read(text);
    return {
      flaws: flaws.map((flaw) => invalidInput(flaw, [...path, "text"])),
      row: { id: documentIdOf(text), text, operation: name ?? operation, kind, registeredBy: caller.actor },
    };
  });
  requireNone(rows.flatMap(({ flaws }) => flaws));
  const added = rows.flatMap(({ row }) => row ?? []);
  return changeAccess(context, async (transaction) => {
    const { tx } = transaction;
    const pathOf = (index: number) => ["input", "remove", String(index)];
    const present = await documentsByIds(tx, remove);
    requireNone([...unknownDocuments(remove, present, pathOf), ...(await inUse(tx, remove))]);
    await deleteDocumentRows(tx, remove);
    await insertDocuments(tx, added);
    if ((await countDocuments(tx)) > DOCUMENTS_MAX) throw new RefusalError([tooMany]);
    const ids = [...new Set(added.map(({ id }) => id))];
    const edits = [
      ...remove.flatMap((id) => editOf(id, { registered: true }, null)),
      ...added.flatMap(({ id, text }) => editOf(id, null, { text: text.replaceAll(STRINGS, `"${MASK}"`) })),
    ];
    transaction.audit(caller, { targets: [...remove, ...ids], edits });
    return { ids, refusals: [] };
  });
}

/** Why the values of variables do not fit a document, as sentences. */
export type VariableFlaws = (text: string, variables: BoundDocument["variables"]) => readonly string[];

/** Why a token cannot be bound to documents. */
export async function bindingFlaws(
  reader: Reader,
  bound: readonly BoundDocument[] | undefined,
  flawsOf: VariableFlaws,
): Promise<Refusal[]> {
  if (bound === undefined) return [];
  const path = ["input", "documents"];
  if (bound.length === 0 || bound.length > DOCUMENTS_OF_TOKEN_MAX) {
    const message = `A token is bound to 1 to ${DOCUMENTS_OF_TOKEN_MAX} documents. Without \`documents\` it sends any.`;
    return [invalidInput(message, path)];
  }
  const ids = bound.map(({ id }) => id);
  const pathOf = (index: number) => [...path, String(index), "id"];
  const present = await documentsByIds(reader, ids);
  return [
    ...sizeFlaws("The documents with their variables", bound, path),
    ...unknownDocuments(ids, present, pathOf),
    ...bound.flatMap(({ id, variables }, index) => {
      if (ids.indexOf(id) < index) return [invalidInput("The document is given twice.", pathOf(index))];
      const document = present.find((one) => one.id === id);
      const flaws = document ? flawsOf(document.text, variables) : [];
      return flaws.map((flaw) => invalidInput(flaw, [...path, String(index), "variables"]));
    }),
  ];
}

function unknownDocuments(
  ids: readonly string[],
  present: readonly DocumentRow[],
  pathOf: (index: number) => readonly string[],
): Refusal[] {
  return ids.flatMap((id, index): Refusal[] => {
    if (present.some((document) => document.id === id)) return [];
    const message = `There is no document ${JSON.stringify(id)}. The query \`trustedDocuments\` lists all of them.`;
    return [notFound(message, [id], pathOf(index))];
  });
}

/** The documents to which tokens are bound that can be used. */
async function inUse(reader: Reader, ids: readonly string[]): Promise<Refusal[]> {
  const tokens = await boundTokens(reader);
  return ids.flatMap((id, index): Refusal[] => {
    const users = tokens.filter(({ documents }) => documents?.some((bound) => bound.id === id));
    if (users.length === 0) return [];
    const message = `The document ${id} is in use by ${listed(users.map((token) => `token ${token.id}`))}. Revoke the tokens first.`;
    return [{ code: "IN_USE", message, path: ["input", "remove", String(index)] }];
  });
}

function lengthFlaws(documents: number, remove: number): Refusal[] {
  if (documents > DOCUMENTS_MAX) return [tooMany];
  return flawIf(documents + remove === 0, "Give documents to register, or ids of documents to remove.", ["input"]);
}

const tooMany = invalidInput(`At most ${DOCUMENTS_MAX} documents are registered. Remove those that nothing sends.`, [
  "input",
  "documents",
]);
