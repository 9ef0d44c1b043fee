/**
 * Limits the size of a response. The cost limits the number of values before anything is read, but some values are
 * large (outputs of steps, inventories, reasons), and serializing a response blocks all other requests. So a result is
 * measured before it is serialized, and refused if it is too large. The number of values is limited earlier, before
 * they are made: by the cost, and for the results of verbs by results-limit.ts.
 */
import { getOperationAST } from "graphql";
import type { Plugin } from "graphql-yoga";
import { LIMITS, beyond } from "../base/request-limits.ts";
import { JsonText } from "./json-list-text.ts";

/** Characters of JSON around a value: quotes or brackets, and a comma. */
const AROUND = 3;

const DONE = "The mutation has been executed: read its outcome with queries.";

/** A Yoga plugin. */
export function answerLimit(): Plugin {
  return {
    onExecute({ args }) {
      const isMutation = getOperationAST(args.document, args.operationName)?.operation === "mutation";
      return {
        onExecuteDone({ result, setResult }) {
          if (Symbol.asyncIterator in result || charactersLeft(result.data, LIMITS.answer) >= 0) return;
          setResult({
            errors: [beyond("answer", isMutation ? { note: DONE } : {})],
            ...(result.extensions && { extensions: result.extensions }),
          });
        },
      };
    },
  };
}

/**
 * The characters left of a budget after writing a value as JSON, approximately: escapes are not counted. Negative as
 * soon as the budget is exceeded.
 */
function charactersLeft(value: unknown, characters: number): number {
  if (typeof value === "string") return characters - value.length - AROUND;
  if (typeof value !== "object" || value === null) return characters - AROUND;
  if (value instanceof JsonText) return characters - value.text.length;
  let left = characters - AROUND;
  for (const name in value) {
    if (left < 0) return left;
    left =
      charactersLeft((value as Readonly<Record<string, unknown>>)[name], left) -
      (Array.isArray(value) ? 0 : name.length + AROUND);
  }
  return left;
}
