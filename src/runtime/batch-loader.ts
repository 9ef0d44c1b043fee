/** Questions about single nodes that come in the same turn of the event loop, asked of the database together. */
import { setImmediate as turn } from "node:timers/promises";

/** A question about one node, of one about many. What is answered was read after the question came; undefined: nothing is known of the node. */
export function createBatchLoader<Answer>(
  ask: (ids: readonly string[]) => Promise<ReadonlyMap<string, Answer>>,
): (id: string) => Promise<Answer | undefined> {
  let gathered: { readonly ids: Set<string>; readonly answers: Promise<ReadonlyMap<string, Answer>> } | undefined;
  return async (id) => {
    if (!gathered) {
      const ids = new Set<string>();
      const answers = turn().then(() => {
        gathered = undefined;
        return ask([...ids]);
      });
      gathered = { ids, answers };
    }
    gathered.ids.add(id);
    return (await gathered.answers).get(id);
  };
}
