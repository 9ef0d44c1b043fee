/**
 * Rows of the audit that no answer waits for: failed logins, and starts. They are written together, in their order, and
 * kept while the database does not take them.
 */
import type { Log } from "../../log.ts";
import type { NewAuditRow } from "../../store/log/audit.ts";

/** Rows that are kept. */
const KEPT_MAX = 10_000;
/** Rows of one statement. */
const BATCH = 500;
const RETRY_MS = 5_000;

export class NotedRows {
  readonly #write: (rows: readonly NewAuditRow[]) => Promise<void>;
  readonly #log: Log;
  readonly #kept: NewAuditRow[] = [];
  #lost = 0;
  #isWriting = false;
  #writing: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (rows: readonly NewAuditRow[]) => Promise<void>, log: Log) {
    this.#write = write;
    this.#log = log;
  }

  add(row: NewAuditRow): void {
    if (this.#kept.length < KEPT_MAX) this.#kept.push(row);
    else this.#lost += 1;
    if (!this.#timer) this.#begin();
  }

  /** Writes what is kept, once more. */
  async close(): Promise<void> {
    await this.#writing;
    clearTimeout(this.#timer);
    this.#begin();
    await this.#writing;
    clearTimeout(this.#timer);
    if (this.#kept.length > 0) this.#log.error({ rows: this.#kept.length }, "rows of the audit were not written");
  }

  #begin(): void {
    this.#timer = undefined;
    if (!this.#isWriting) this.#writing = this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    try {
      while (this.#kept.length > 0) {
        const rows = this.#kept.slice(0, BATCH);
        await this.#write(rows);
        this.#kept.splice(0, rows.length);
      }
      if (this.#lost > 0) this.#log.error({ rows: this.#lost }, "rows of the audit are lost: too many had to wait");
      this.#lost = 0;
    } catch (error) {
      this.#log.warn({ err: error }, "rows of the audit cannot be written; trying again");
      this.#timer = setTimeout(() => this.#begin(), RETRY_MS).unref();
    } finally {
      // In the turn in which the loop ends: a row that is added in between would stay.
      this.#isWriting = false;
    }
  }
}
