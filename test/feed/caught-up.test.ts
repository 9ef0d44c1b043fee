/** When a stream reports that it has caught up, with a log that is made of numbers and grows as fast as it is read. */
import { expect, test } from "vitest";
import { streamOf } from "../../src/feed/stream.ts";
import type { Source } from "../../src/feed/stream.ts";
import type { Tail } from "../../src/feed/log/tail.ts";
import type { LogCursor } from "../../src/store/log/transitions.ts";
import { takeUntil } from "../support/service.ts";

interface Numbered {
  readonly kind: "numbered";
  readonly cursor: LogCursor;
}

const PAGE = 100;
const cursorAt = (position: number): LogCursor => ({ position, at: null });

function streamOverGrowingLog(newest: number) {
  let head = newest;
  const source: Source<never, Numbered, LogCursor> = {
    beforeFirst: cursorAt(0),
    get head() {
      return head;
    },
    onAdvance: () => () => {},
    isRecent: () => true,
    newest: () => Promise.resolve(cursorAt(newest)),
    check: () => Promise.resolve({ isValid: true, earliest: cursorAt(0), newest }),
    read({ position }) {
      head += PAGE;
      const items = Array.from({ length: PAGE }, (_, index): Numbered => {
        return { kind: "numbered", cursor: cursorAt(position + index + 1) };
      });
      return { items, cursor: cursorAt(position + PAGE) };
    },
    claim: () => ({ taken: Promise.reject(new Error("There is no snapshot.")), release: () => {} }),
    snapshotItem: () => ({ kind: "numbered", cursor: cursorAt(0) }),
  };
  const turns: Tail["turns"] = { items: PAGE / 2, take: (work) => work() };
  return streamOf({ turns, closed: false, onReset: () => {} }, source, { after: cursorAt(0), snapshot: false });
}

test("a stream that never reaches the head reports that it has caught up after the last row of before it began [R-118]", async () => {
  const stream = streamOverGrowingLog(300);
  const items = await takeUntil(stream, (item) => item.kind === "numbered" && item.cursor.position === 500);
  const marks = items.flatMap((item, index) => (item.kind === "bookmark" ? [{ index, ...item }] : []));
  expect(marks).toMatchObject([{ index: 300, cursor: cursorAt(300), caughtUp: true }]);
  await stream.return?.();
});
