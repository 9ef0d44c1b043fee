/** The sentences before stops and aborts, to stand beside what has happened since. They are kept for this tab. */

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
