/**
 * Executes requests with graphql-js. Yoga's own executor takes every value with a member `then` for a promise, also
 * JSON that a user or a machine has stored, and fails for the whole list that contains it. graphql-js calls only
 * functions.
 */
import { execute, subscribe } from "graphql";
import type { Plugin } from "graphql-yoga";

/** A Yoga plugin. Comes first: other plugins wrap the functions that it sets. */
export function referenceExecutor(): Plugin {
  return {
    onExecute({ setExecuteFn }) {
      setExecuteFn(execute);
    },
    onSubscribe({ setSubscribeFn }) {
      setSubscribeFn(subscribe);
    },
  };
}
