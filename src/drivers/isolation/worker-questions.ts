/** In a worker: questions to the service, which are answered by their numbers. */
import type { Json } from "../driver.ts";
import { errorOf } from "./protocol.ts";
import type { FromWorker, Reply } from "./protocol.ts";

export interface Questions {
  /** `question` makes the message with its number. Rejects with the service's error. */
  ask(question: (number: number) => FromWorker): Promise<Json | undefined>;
  /** Takes the service's reply. */
  answer(number: number, reply: Reply): void;
}

export function createQuestions(send: (message: FromWorker) => void): Questions {
  const waiting = new Map<number, PromiseWithResolvers<Json | undefined>>();
  let count = 0;
  return {
    ask(question) {
      count += 1;
      const answer = Promise.withResolvers<Json | undefined>();
      waiting.set(count, answer);
      send(question(count));
      return answer.promise;
    },
    answer(number, reply) {
      const question = waiting.get(number);
      waiting.delete(number);
      if ("error" in reply) question?.reject(errorOf(reply.error));
      else question?.resolve(reply.value);
    },
  };
}

/** Runs work sequentially, so that a driver that asks without limit delays only itself. */
export function createSequence(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const mine = last.then(work, work);
    last = mine.catch(() => {});
    return mine;
  };
}
