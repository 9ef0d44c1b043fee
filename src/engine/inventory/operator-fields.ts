/** The checks of the fields that operators set: the same at registration and with updateNodes. */
import { flawIf } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { OPERATOR_COLUMNS, declared } from "../../store/nodes/node-fields.ts";
import type { OperatorColumn, OperatorFields } from "../../store/nodes/node-fields.ts";
import { hostGroupFlaw } from "../input/name-rules.ts";
import { DESCRIPTION_LENGTH_MAX, textFlaws } from "../input/size-limits.ts";

/** Texts with other rules than a length. */
const CHECKS: { readonly [Column in OperatorColumn]?: (value: string, path: readonly string[]) => Refusal[] } = {
  hostGroup: hostGroupFlaw,
};

/** The flaws of the fields in the input at `path`. */
export function operatorFieldFlaws(fields: OperatorFields, path: readonly string[]): Refusal[] {
  return OPERATOR_COLUMNS.flatMap((column) => {
    const value = fields[column];
    if (typeof value !== "string") return rangeFlaws(column, value, path);
    return CHECKS[column]?.(value, path) ?? textFlaws(column, value, DESCRIPTION_LENGTH_MAX, path);
  });
}

function rangeFlaws(column: OperatorColumn, value: unknown, path: readonly string[]): Refusal[] {
  if (typeof value !== "number") return [];
  const [least = -Infinity, most = Infinity] = declared(column).range ?? [];
  const message = `${column} is ${value}; use a whole number from ${least} to ${most}.`;
  return flawIf(!(value >= least && value <= most), message, [...path, column]);
}
