/** The checks of the fields that operators set: the same at registration, in updateNodes and in updateNodes. */
import type { Refusal } from "../../errors.ts";
import { OPERATOR_COLUMNS } from "../../store/node-fields.ts";
import type { OperatorColumn, OperatorFields } from "../../store/node-fields.ts";
import { hostGroupFlaw } from "../input/name-rules.ts";
import { DESCRIPTION_LENGTH_MAX, textFlaws } from "../input/size-limits.ts";

type Check<Value> = (value: Value, path: readonly string[]) => Refusal[];

const CHECKS: { readonly [Column in OperatorColumn]: Check<OperatorFields[Column]> } = {
  hostGroup: hostGroupFlaw,
  description: (text, path) => textFlaws("description", text, DESCRIPTION_LENGTH_MAX, path),
  automaticCleaning: () => [],
  sharedController: () => [],
  diskless: () => [],
};

/** The flaws of the fields in the input at `path`. */
export function operatorFieldFlaws(fields: OperatorFields, path: readonly string[]): Refusal[] {
  return OPERATOR_COLUMNS.flatMap((column) => flawsOf(column, fields[column], path));
}

function flawsOf<Column extends OperatorColumn>(
  column: Column,
  value: OperatorFields[Column],
  path: readonly string[],
): Refusal[] {
  return CHECKS[column](value, path);
}
