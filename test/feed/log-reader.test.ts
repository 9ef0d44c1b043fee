/** The reader of new rows: a request to read that arrives at any moment is served. */
import { expect, test } from "vitest";
import { LogReader } from "../../src/feed/log/log-reader.ts";
import { createLog } from "../../src/log.ts";

/** More turns than lie between an answer of the database and the end of its read. */
const TURNS = 8;

test.each(Array.from({ length: TURNS }, (_, turns) => turns))(
  "log reader reads again if a write is notified %i turns after the answer of a read",
  async (turns) => {
    const answers: PromiseWithResolvers<readonly never[]>[] = [];
    const rowsAfter = () => {
      const answer = Promise.withResolvers<readonly never[]>();
      answers.push(answer);
      return answer.promise;
    };
    const reader = new LogReader<never>(
      { rowsAfter, onRows: () => {}, log: createLog("silent") },
      { position: 0, at: null },
    );
    reader.readNew();
    answers[0]?.resolve([]);
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    reader.readNew();
    for (let turn = 0; turn < TURNS; turn += 1) await Promise.resolve();
    expect(answers).toHaveLength(2);
    answers[1]?.resolve([]);
    await reader.settled();
  },
);
