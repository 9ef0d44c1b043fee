/** The inputs of the fields that operators set, made of their declarations. */
import { OPERATOR_COLUMNS, declared } from "../../../store/nodes/node-fields.ts";
import type { NodeRow, OperatorColumn } from "../../../store/nodes/node-fields.ts";
import type { InputFields } from "../../base/builder.ts";

type InputTypeOf<Value> = Value extends boolean ? "Boolean" : Value extends number ? "Int" : "String";

type OperatorInputs = {
  readonly [Column in OperatorColumn]: ReturnType<typeof inputOf<InputTypeOf<Exclude<NodeRow[Column], null>>>>;
};

function inputOf<Type extends "String" | "Boolean" | "Int">(t: InputFields, type: Type, description: string) {
  return t.field({ type, description });
}

export function operatorInputs(t: InputFields): OperatorInputs {
  return Object.fromEntries(
    OPERATOR_COLUMNS.map((column) => {
      const { type, operator = "" } = declared(column);
      return [column, inputOf(t, type, operator)];
    }),
  ) as unknown as OperatorInputs;
}
