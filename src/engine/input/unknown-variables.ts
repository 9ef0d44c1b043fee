/** Variables that no driver of a node reads: what a request does with them, and the warning in a plan. */
import type { VariableSource } from "./variables.ts";

/** Effect of variables that no driver reads. */
export const UNKNOWN_VARIABLES = {
  WARN: "Accept them; the plan has a warning for each.",
  REFUSE_SIMILAR:
    "Refuse the node if the name is close to one that a driver of the plan reads and that has no value, as a typing error is; otherwise as WARN.",
  REFUSE: "Refuse the node.",
} as const;
export type UnknownVariables = keyof typeof UNKNOWN_VARIABLES;

/** A variable that no driver of the node reads. */
export interface VariableWarning {
  readonly name: string;
  readonly source: VariableSource;
  /** The closest name that a driver reads; null if none is close. */
  readonly nearest: string | null;
  readonly message: string;
}
