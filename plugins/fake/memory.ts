/** The state of fake machines that all processes of the driver share: their power, and failures counted so far. */
import type { Call, DriverMemory, Json, PowerState, StepResult } from "../../src/drivers/driver.ts";
import type { FakeSettings } from "./settings.ts";

export class FakeMemory {
  readonly #memory: DriverMemory;

  /** Without `memory`, as outside a service, the state lives in this process. */
  constructor(memory: DriverMemory = processMemory()) {
    this.#memory = memory;
  }

  async power({ node }: Call<FakeSettings>): Promise<PowerState> {
    const kept = await this.#memory.get(`power ${node.id}`);
    return (kept ?? node.powerState) === "ON" ? "ON" : "OFF";
  }

  async setPower({ node }: Call<FakeSettings>, state: "ON" | "OFF"): Promise<void> {
    await this.#memory.set(`power ${node.id}`, state);
  }

  /** A failure of this step while fewer than `times` were counted for the node; then null. */
  async nextFailure(
    label: string,
    { node }: Call<FakeSettings>,
    { times, retryable }: { readonly times: number; readonly retryable: boolean },
  ): Promise<StepResult | null> {
    const key = `failures ${node.id} ${label}`;
    const failed = Number(await this.#memory.get(key)) || 0;
    if (failed >= times) return null;
    await this.#memory.set(key, failed + 1);
    return { kind: "failed", reason: `failure ${failed + 1} of ${times}`, retryable };
  }
}

function processMemory(): DriverMemory {
  const values = new Map<string, Json>();
  return {
    get: async (key) => values.get(key),
    async set(key, value) {
      if (value === undefined) values.delete(key);
      else values.set(key, value);
    },
  };
}
