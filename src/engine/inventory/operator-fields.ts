/** The checks of the fields that operators set: the same at registration and with updateNodes. */
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
  return OPERATOR_COLUMNS.flatMap((column): Refusal[] => {
    const value: string | boolean | number | null | undefined = fields[column];
    const { range } = declared(column);
    if (typeof value === "number" && range && (value < range[0] || value > range[1])) {
      const message = `${column} is ${value}; use a whole number from ${range[0]} to ${range[1]}.`;
      return [{ code: "INVALID_INPUT", message, path: [...path, column] }];
    }
    if (typeof value !== "string") return [];
    return CHECKS[column]?.(value, path) ?? textFlaws(column, value, DESCRIPTION_LENGTH_MAX, path);
  });
}
