/**
 * Streams of answers, such as counts of nodes: the present answer first, then the answer whenever it has changed. They
 * send states, so a client that reconnects needs no cursor.
 *
 * An answer reads all matching nodes, so the answers of a process share their time: streams with equal questions share
 * each read, one answer is read at a time, and reads take at most a tenth of the time; more only if the database is so
 * slow that an answer would be old. Each answer is read at most once a second. Nothing else is asked before a read,
 * because no notification covers all fields of nodes, and an answer may change with time alone.
 */
import type { Database, Reader } from "../../store/postgres/database.ts";
import type { LogCursor } from "../../store/log/transitions.ts";
import { pulled } from "../pull.ts";
import type { Tail } from "../log/tail.ts";

/** A question that is asked again and again. */
export interface Question<Answer> {
  /** Equal for equal questions. */
  readonly key: string;
  /** The cursor, as of which the answer was read, is not part of it: it changes with nodes that do not matter. */
  readonly read: (reader: Reader) => Promise<Answer & { readonly cursor: LogCursor }>;
}

type AnswerUpdate<Answer> = Answer & {
  readonly cursor: LogCursor;
  /** Equal for updates that look the same. */
  readonly key: string;
};

export function keyOfAnswer({ key }: { readonly key: string }): string {
  return key;
}

/** An answer that streams wait for. */
interface SharedAnswer {
  readonly question: Question<object>;
  readonly listeners: Set<() => void>;
  /** By the monotonic clock. */
  readAt: number;
  update: AnswerUpdate<object> | null;
  /** The answer of the update as text. */
  text: string;
  /** Ends the streams; a later one starts again. */
  error: unknown;
}

const EVERY_MS = 1_000;
/** Reads are followed by a pause of this many times their duration. */
const PAUSE_FACTOR = 9;
/** A read that waited for a lock, or for a busy machine, must not keep the streams waiting for minutes. */
const PAUSE_MS_MAX = 15_000;
/** Longest wait of a stream without a look. */
const LOOK_MS = 10_000;

class SharedAnswers {
  readonly #database: Database;
  readonly #answers = new Map<string, SharedAnswer>();
  #isRunning = false;
  /** Number of updates so far. */
  #made = 0;
  #wake = () => {};

  constructor(database: Database) {
    this.#database = database;
  }

  /** Joins the streams of equal questions. */
  join(question: Question<object>, listener: () => void): { readonly shared: SharedAnswer; leave(): void } {
    const { key } = question;
    const shared: SharedAnswer = this.#answers.get(key) ?? {
      question,
      listeners: new Set(),
      readAt: -Infinity,
      update: null,
      text: "",
      error: null,
    };
    this.#answers.set(key, shared);
    shared.listeners.add(listener);
    if (this.#isRunning) this.#wake();
    else void this.#run();
    const leave = () => {
      shared.listeners.delete(listener);
      if (shared.listeners.size === 0) this.#drop(shared);
    };
    return { shared, leave };
  }

  /** Reads the answer that was read longest ago, again and again, as long as there are streams. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#answers.size > 0) {
      const [oldest] = [...this.#answers.values()].toSorted((a, b) => a.readAt - b.readAt);
      const early = oldest ? EVERY_MS - (performance.now() - oldest.readAt) : 0;
      if (!oldest || early > 0) {
        // A stream with another question ends the pause.
        await pause(early, (wake) => (this.#wake = wake));
        continue;
      }
      const startedAt = performance.now();
      oldest.readAt = startedAt;
      // A read that failed ended the streams of its answer. Later ones must not wait for as long as it took.
      if (await this.#read(oldest)) await pause(Math.min(PAUSE_FACTOR * (performance.now() - startedAt), PAUSE_MS_MAX));
    }
    this.#isRunning = false;
  }

  #drop(shared: SharedAnswer): void {
    const { key } = shared.question;
    if (this.#answers.get(key) === shared) this.#answers.delete(key);
  }

  /** False if the answer could not be read. */
  async #read(shared: SharedAnswer): Promise<boolean> {
    try {
      const answer = await shared.question.read(this.#database.reader);
      const text = JSON.stringify({ ...answer, cursor: null });
      if (shared.update && text === shared.text) return true;
      shared.text = text;
      this.#made += 1;
      shared.update = { ...answer, key: String(this.#made) };
    } catch (error) {
      shared.error = error;
      this.#drop(shared);
    }
    for (const listener of shared.listeners) listener();
    return shared.error === null;
  }
}

function pause(milliseconds: number, onWake?: (wake: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds).unref();
    onWake?.(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

const answersOf = new WeakMap<Database, SharedAnswers>();

export function answerStream<Answer extends object>(
  { database, tail }: { readonly database: Database; readonly tail: Pick<Tail, "closed" | "onAdvance"> },
  question: Question<Answer>,
): AsyncIterableIterator<AnswerUpdate<Answer>> {
  const answers = answersOf.get(database) ?? new SharedAnswers(database);
  answersOf.set(database, answers);
  let sent: object | null = null;
  let wake = () => {};
  const { shared, leave } = answers.join(question, () => wake());
  return pulled({
    onChange(listener) {
      wake = listener;
      // The end of the tail ends the stream.
      const unsubscribe = tail.onAdvance(() => tail.closed && listener());
      return () => {
        wake = () => {};
        unsubscribe();
      };
    },
    produce() {
      if (tail.closed) return [];
      if (shared.error !== null) throw shared.error;
      if (!shared.update || shared.update === sent) return { pauseMs: LOOK_MS };
      sent = shared.update;
      // Equal keys belong to the same kind of question.
      return [shared.update as AnswerUpdate<Answer>];
    },
    release: leave,
  });
}
