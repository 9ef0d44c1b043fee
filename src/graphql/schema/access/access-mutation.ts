/** Mutations of accounts, tokens, roles and grants: for administrators, and in force when they are answered. */
import { addMutation } from "../../base/mutation.ts";
import type { Mutation } from "../../base/mutation.ts";

export function addAccessMutation<Input extends object, Answer extends object>(
  name: string,
  mutation: Omit<Mutation<Input, Answer>, "scope">,
): void {
  addMutation<Input, Answer>(name, {
    ...mutation,
    scope: "ADMIN",
    async run(input, engine, caller, context) {
      const answer = await mutation.run(input, engine, caller, context);
      await context.services.access.refresh();
      return answer;
    },
  });
}
