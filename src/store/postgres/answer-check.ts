/**
 * Checks whether the server answers, to distinguish a database that is away from a statement that is slow. It uses a
 * connection of its own: a pool whose connections are all busy says nothing about the server.
 */
import { withinTime } from "../../runtime/timeout.ts";
import { closePool, connect } from "./connect.ts";
import type { Connection } from "./connect.ts";

/** Time for the server to answer, in milliseconds. */
const ANSWER_MS = 1_000;
/** Time without a check after which the connection is closed. */
const UNUSED_SECONDS = 10;
/** Time without an answer after which the connection counts as lost. */
const SILENT_SECONDS = 5;

export interface AnswerCheck extends AsyncDisposable {
  /** Whether the server answers a statement in time. Checks at the same time are one statement. */
  isAnswering(): Promise<boolean>;
}

export function createAnswerCheck(connection: Connection): AnswerCheck {
  const sql = connect(connection, {
    max: 1,
    prepare: false,
    silentSeconds: SILENT_SECONDS,
    unusedSeconds: UNUSED_SECONDS,
  });
  let underWay: Promise<boolean> | null = null;
  const check = () => {
    const asked = sql.unsafe("select 1").then(
      () => true,
      () => false,
    );
    return withinTime(ANSWER_MS, asked, false).finally(() => {
      underWay = null;
    });
  };
  return {
    isAnswering: () => (underWay ??= check()),
    [Symbol.asyncDispose]: () => closePool(sql),
  };
}
