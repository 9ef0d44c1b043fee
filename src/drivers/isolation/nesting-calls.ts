/**
 * Calls that make nested calls: a step uses the power or the media of its node, and the service calls the driver for it
 * in another process. Which functions do that is learned from the first call that does.
 *
 * If such calls held all processes of their driver, none of them would end before another process has started, and with
 * that one more they would hold all again. So they leave one to the nested calls, if their driver has several.
 */
import { WAIT_MAX_MS } from "./worker-demand.ts";
import type { WorkerDemand } from "./worker-demand.ts";
import type { Handle, Plugin } from "./worker-handle.ts";

type Worker = Pick<Handle, "plugin" | "state" | "calledMs">;

export class NestingCalls {
  /** Names of functions, by driver. */
  readonly #known = new Map<Plugin, Set<string>>();
  /** Workers with such a call. */
  readonly #holders = new Set<Worker>();

  /** The call of this worker makes a nested call. */
  note(worker: Worker, what: string): void {
    const known = this.#known.get(worker.plugin) ?? new Set();
    this.#known.set(worker.plugin, known.add(what));
    this.#holders.add(worker);
  }

  isKnown(plugin: Plugin, what: string): boolean {
    return this.#known.get(plugin)?.has(what) === true;
  }

  /** The worker gets a call that is known to make nested calls. */
  hold(worker: Worker): void {
    this.#holders.add(worker);
  }

  /** Its call has ended. */
  release(worker: Worker): void {
    this.#holders.delete(worker);
  }

  /** Whether one more such call would leave none of the driver's workers to nested calls. */
  needsAnother(ready: readonly Worker[]): boolean {
    return ready.length > 1 && ready.filter((worker) => !this.#holders.has(worker)).length === 1;
  }

  /** `nested`: nested calls that wait for a worker. */
  split(ready: readonly Worker[], nested: number): Pick<WorkerDemand, "prompt" | "blocked"> {
    const isPrompt = (worker: Worker) => worker.state !== "busy" && worker.calledMs < WAIT_MAX_MS;
    const holders = ready.filter((worker) => this.#holders.has(worker));
    const blocked = Math.min(nested, holders.length);
    const others = ready.filter((worker) => !this.#holders.has(worker) && isPrompt(worker)).length;
    return { blocked, prompt: others + Math.max(0, holders.filter(isPrompt).length - blocked) };
  }
}
