/** Executions of the plugin that shares events, without a server. */
import type { ExecutionResult } from "graphql";
import type { shareEvents } from "../../src/graphql/execution/shared-events.ts";

/** The results of a subscription with these arguments of an execution, of a caller whose access never changes. */
export async function executionsOf(
  plugin: ReturnType<typeof shareEvents>,
  {
    contextValue,
    ...given
  }: { readonly contextValue: Readonly<Record<string, unknown>>; readonly [name: string]: unknown },
): Promise<AsyncIterableIterator<ExecutionResult>> {
  const services = { access: { watch: () => () => {} }, ...(contextValue["services"] as object) };
  const args = {
    ...given,
    contextValue: { actor: { scope: "READ", roles: ["viewer"] }, ...contextValue, services },
  };
  let results: unknown;
  await plugin.onSubscribe?.({
    args,
    setResultAndStopExecution: (result: unknown) => void (results = result),
  } as never);
  return results as AsyncIterableIterator<ExecutionResult>;
}
