/** Mutations: each takes one input. */
import type { Scope } from "../../lifecycle/scopes.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Caller } from "../../engine/transaction.ts";
import { builder, needs } from "./builder.ts";
import type { InputRef, ObjectRef } from "./builder.ts";
import { callerOf } from "./context.ts";
import type { Context } from "./context.ts";

export interface Mutation<Input, Answer> {
  readonly scope: Scope;
  readonly description: string;
  readonly input: InputRef<Input>;
  /** Description of the argument `input`. */
  readonly argument: string;
  readonly payload: ObjectRef<Answer>;
  readonly run: (input: Input, engine: Engine, caller: Caller, context: Context) => Answer | Promise<Answer>;
}

export function addMutation<Input extends object, Answer extends object>(
  name: string,
  mutation: Mutation<Input, Answer>,
): void;
// Pothos cannot resolve the types of a generic input and its answer, so the field is made for any of them.
export function addMutation(
  name: string,
  { scope, description, input, argument, payload, run }: Mutation<object, object>,
): void {
  builder.mutationField(name, (t) =>
    t.field({
      type: payload,
      ...needs(scope),
      description,
      args: { input: t.arg({ type: input, required: true, description: argument }) },
      resolve: (_root, args, context) => run(args.input, context.services.engine, callerOf(context), context),
    }),
  );
}
