/** Executions of the plugin that shares events, without a server. */
import type { ExecutionResult } from "graphql";
import type { shareEvents } from "../../src/graphql/execution/shared-events.ts";

/** The results of a subscription with these arguments of an execution. */
export async function executionsOf(
  plugin: ReturnType<typeof shareEvents>,
  args: object,
): Promise<AsyncIterableIterator<ExecutionResult>> {
  let results: unknown;
  await plugin.onSubscribe?.({
    args,
    setResultAndStopExecution: (result: unknown) => void (results = result),
  } as never);
  return results as AsyncIterableIterator<ExecutionResult>;
}
