/**
 * Streams of answers, such as counts of nodes: the present answer first, then the answer whenever it has changed. They
 * send states, so a client that reconnects needs no cursor.
 *
 * Streams of a process with equal questions share each read, because an answer reads all matching nodes. It is read
 * again after a change, at most once a second, and every ten seconds if it changes with time alone. One answer is read
 * at a time, and reads take at most a tenth of the time; more only if the database is so slow that an answer would be
 * old.
 *
 * Modes:
 * - no streams: nothing runs, and the log of changes is not followed.
 * - waiting until an answer is due: ended by a change, by another question, and when the last stream leaves.
 * - pausing after a read: ended by nothing.
 */
import type { Reader } from "../../store/postgres/database.ts";
import type { LogCursor } from "../../store/log/transitions.ts";
import { pulled } from "../pull.ts";
import type { LiveHead } from "./paced-head.ts";

/** A question that is asked again and again. */
export interface Question<Answer> {
  /** Equal for equal questions. */
  readonly key: string;
  /** Whether the answer may change with time alone. */
  readonly isTimed?: boolean;
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
  /** Position of the log of changes before the read. */
  position: number;
  update: AnswerUpdate<object> | null;
  /** The answer of the update as text. */
  text: string;
  /** Ends the streams; a later one starts again. */
  error: unknown;
}

/** A position of no log: the first read is due at once, also while the tail is idle or cannot read. */
const NEVER_READ = -1;
/** An answer is read at most this often. */
const EVERY_MS = 1_000;
/** An answer that changes with time is read this often without a change. */
const TIMED_MS = 10_000;
/** Reads are followed by a pause of this many times their duration. */
const PAUSE_FACTOR = 9;
/** A read that waited for a lock, or for a busy machine, must not keep the streams waiting for minutes. */
const PAUSE_MS_MAX = 15_000;
/** Longest wait without a look. */
const LOOK_MS = 60_000;

export class SharedAnswers {
  readonly #reader: Reader;
  readonly #changes: LiveHead;
  readonly #answers = new Map<string, SharedAnswer>();
  #isRunning = false;
  /** Number of updates so far. */
  #made = 0;
  #wake = () => {};

  /** `changes`: the log of changes, which has every field that an answer depends on. */
  constructor(reader: Reader, changes: LiveHead) {
    this.#reader = reader;
    this.#changes = changes;
  }

  stream<Answer extends object>(question: Question<Answer>): AsyncIterableIterator<AnswerUpdate<Answer>> {
    const shared = this.#shared(question);
    let sent: object | null = null;
    return pulled({
      onChange: (listener) => {
        shared.listeners.add(listener);
        return () => {
          shared.listeners.delete(listener);
          if (shared.listeners.size === 0) this.#drop(shared);
        };
      },
      produce: () => {
        if (this.#changes.isClosed) return [];
        if (shared.error !== null) throw shared.error;
        if (!shared.update || shared.update === sent) return { pauseMs: LOOK_MS };
        sent = shared.update;
        // Equal keys belong to the same kind of question.
        return [shared.update as AnswerUpdate<Answer>];
      },
    });
  }

  #shared(question: Question<object>): SharedAnswer {
    const { key } = question;
    const shared: SharedAnswer = this.#answers.get(key) ?? {
      question,
      listeners: new Set(),
      readAt: -Infinity,
      position: NEVER_READ,
      update: null,
      text: "",
      error: null,
    };
    this.#answers.set(key, shared);
    if (this.#isRunning) this.#wake();
    else void this.#run();
    return shared;
  }

  /** Reads the answer that is due first, again and again, as long as there are streams. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    const unsubscribe = this.#changes.onAdvance(() => {
      if (this.#changes.isClosed) for (const shared of this.#answers.values()) notify(shared);
      this.#wake();
    });
    while (this.#answers.size > 0) {
      const [first] = [...this.#answers.values()].toSorted((a, b) => this.#dueAt(a) - this.#dueAt(b));
      const early = first ? this.#dueAt(first) - performance.now() : 0;
      if (!first || early > 0) {
        await pause(Math.min(early, LOOK_MS), (wake) => (this.#wake = wake));
        continue;
      }
      const startedAt = performance.now();
      first.readAt = startedAt;
      first.position = this.#changes.position;
      // A read that failed ended the streams of its answer. Later ones must not wait for as long as it took.
      if (await this.#read(first)) await pause(Math.min(PAUSE_FACTOR * (performance.now() - startedAt), PAUSE_MS_MAX));
    }
    unsubscribe();
    this.#isRunning = false;
  }

  /** By the monotonic clock. */
  #dueAt({ question, readAt, position }: SharedAnswer): number {
    if (position !== this.#changes.position) return readAt + EVERY_MS;
    return question.isTimed ? readAt + TIMED_MS : Infinity;
  }

  #drop(shared: SharedAnswer): void {
    const { key } = shared.question;
    if (this.#answers.get(key) === shared) this.#answers.delete(key);
    if (this.#answers.size === 0) this.#wake();
  }

  /** False if the answer could not be read. */
  async #read(shared: SharedAnswer): Promise<boolean> {
    try {
      const answer = await shared.question.read(this.#reader);
      const text = JSON.stringify({ ...answer, cursor: null });
      if (shared.update && text === shared.text) return true;
      shared.text = text;
      this.#made += 1;
      shared.update = { ...answer, key: String(this.#made) };
    } catch (error) {
      shared.error = error;
      this.#drop(shared);
    }
    notify(shared);
    return shared.error === null;
  }
}

function notify({ listeners }: SharedAnswer): void {
  for (const listener of listeners) listener();
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
