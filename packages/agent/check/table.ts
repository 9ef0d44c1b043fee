/** The lines that the check prints. */
export class Table {
  #passed = 0;
  #failed = 0;
  #skipped = 0;

  heading(name: string): void {
    console.log(`\n${name}`);
  }

  /** One expectation; the detail shows a figure, or what came instead. */
  expect(holds: boolean, what: string, seconds: number | null = null, detail = ""): void {
    if (holds) this.#passed += 1;
    else this.#failed += 1;
    this.#line(holds ? "ok" : "FAILED", what, seconds, detail);
  }

  failed(what: string, reason: string): void {
    this.#failed += 1;
    this.#line("FAILED", what, null, reason);
  }

  skipped(what: string, reason: string): void {
    this.#skipped += 1;
    this.#line("SKIPPED", what, null, reason);
  }

  /** Returns the exit code. */
  finish(): number {
    console.log(`\n${this.#passed} passed, ${this.#failed} failed, ${this.#skipped} skipped`);
    return this.#failed === 0 ? 0 : 1;
  }

  #line(verdict: string, what: string, seconds: number | null, detail: string): void {
    const time = seconds === null ? "" : `${seconds.toFixed(1)} s`;
    console.log(`  ${verdict.padEnd(8)}${what.padEnd(62)}${time.padStart(9)}  ${detail}`.trimEnd());
  }
}
