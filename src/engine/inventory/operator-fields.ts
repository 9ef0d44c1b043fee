/** The checks of the fields that operators set: the same at registration and with updateNodes. */
import type { Refusal } from "../../errors.ts";
import { OPERATOR_COLUMNS } from "../../store/nodes/node-fields.ts";
import type { OperatorColumn, OperatorFields } from "../../store/nodes/node-fields.ts";
import { hostGroupFlaw } from "../input/name-rules.ts";
import { DESCRIPTION_LENGTH_MAX, textFlaws } from "../input/size-limits.ts";

type Check = (value: string, path: readonly string[]) => Refusal[];

/** Texts with other rules than a length. */
const CHECKS: { readonly [Column in OperatorColumn]?: Check } = { hostGroup: hostGroupFlaw };

/** The flaws of the fields in the input at `path`. */
export function operatorFieldFlaws(fields: OperatorFields, path: readonly string[]): Refusal[] {
  return OPERATOR_COLUMNS.flatMap((column) => {
    const value = fields[column];
    if (typeof value !== "string") return [];
    return CHECKS[column]?.(value, path) ?? textFlaws(column, value, DESCRIPTION_LENGTH_MAX, path);
  });
}
