/** Documents to which a token is bound. */
import { builder } from "../../base/builder.ts";
import type { BoundDocument, JsonObject } from "../../../store/records.ts";
import { badInput } from "../../base/connection.ts";
import { isRecord } from "../../../runtime/json-values.ts";

export const BoundDocumentRef = builder.objectRef<BoundDocument>("BoundDocument").implement({
  description: "Registered document that a token may send.",
  fields: (t) => ({
    id: t.exposeString("id", { description: "Hash of its text, as in `TrustedDocument.id`." }),
    variables: t.expose("variables", {
      type: "JSON",
      description: "Variables for which the token sends no other values: an object, empty if all are free.",
    }),
  }),
});

export const BoundDocumentInput = builder.inputType("BoundDocumentInput", {
  description: "Registered document that a token may send.",
  fields: (t) => ({
    id: t.string({ required: true, description: "Its `TrustedDocument.id`." }),
    variables: t.field({
      type: "JSON",
      description:
        "Object with variables that are fixed: the token sends these values, and may leave them out. Default: all are free.",
    }),
  }),
});

export function boundDocumentOf(
  { id, variables }: typeof BoundDocumentInput.$inferInput,
  index: number,
): BoundDocument {
  const fixed = variables ?? {};
  if (!isRecord(fixed)) throw badInput(`\`documents.${index}.variables\` must be an object with the fixed variables.`);
  return { id, variables: fixed as JsonObject };
}
