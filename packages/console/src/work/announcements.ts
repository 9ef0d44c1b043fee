/** The sentences before stops and aborts, to stand beside what has happened since. They are kept for this tab. */
import { createSignal } from "../data/signal.ts";

/** The refusal or the error of a request whose dialog was left before the answer came. */
export const unseen = createSignal<string | null>(null);

export interface Announcement {
  readonly verb: string;
  readonly sentence: string;
  readonly at: string;
}

const keyOf = (operation: string) => `ostler-announced-${operation}`;

export function announce(operations: readonly string[], announcement: Announcement): void {
  const { length } = operations;
  const sentence = length === 1 ? announcement.sentence : `In ${length} operations: ${announcement.sentence}`;
  for (const operation of operations)
    sessionStorage.setItem(keyOf(operation), JSON.stringify({ ...announcement, sentence }));
}

/** `operation`: its UUID. */
export function announced(operation: string): Announcement | null {
  const text = sessionStorage.getItem(keyOf(operation));
  return text === null ? null : (JSON.parse(text) as Announcement);
}
