/**
 * How long an answer may be. Cost bounds how many values an answer has, before anything is read; some of them may be
 * large (outputs of steps, inventories, reasons), and the whole of an answer is made into one text in one go, for which
 * everybody else waits. So what a query came to is measured before that, and refused where it is too much.
 */
import { getOperationAST } from "graphql";
import type { Plugin } from "graphql-yoga";
import { LIMITS, beyond } from "../base/request-limits.ts";
import { JsonText } from "./json-list-text.ts";

/** Characters that JSON puts around a value: quotes or brackets, and a comma. */
const AROUND = 3;

/** The plugin. Mutations are answered whatever their length, which the nodes they are about make: what they did is done. */
export function answerLimit(): Plugin {
  return {
    onExecute({ args }) {
      if (getOperationAST(args.document, args.operationName)?.operation !== "query") return undefined;
      return {
        onExecuteDone({ result, setResult }) {
          if (Symbol.asyncIterator in result || charactersLeft(result.data, LIMITS.answer) >= 0) return;
          setResult({ errors: [beyond("answer")], ...(result.extensions && { extensions: result.extensions }) });
        },
      };
    },
  };
}

/** What is left of so many characters when a value has been written as JSON, about: escapes are not counted. Negative as soon as it is too much. */
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
