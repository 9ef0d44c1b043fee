/** Inspection through the BMC: it affects no running system. */
import type { DriverMemory, InspectInterface, StepCall, StepResult } from "../../src/drivers/driver.ts";
import { readComponents, readIdentity, unhealthy } from "./inventory.ts";
import { withService } from "./service.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { asResult } from "./step-result.ts";
import { acceptSystem } from "./system.ts";

const LINES_MAX = 20;

export function redfishInspect(memory: DriverMemory | undefined): InspectInterface<RedfishSettings> {
  return {
    withoutReboot: true,
    supportsAbort: true,
    steps: [
      {
        name: "read_inventory",
        title: "Read what the BMC reports about the machine and its components",
        phase: "inspect",
        priority: 20,
        interruptible: "ALWAYS",
        timeoutSeconds: 900,
        idempotent: true,
        touches: [],
        retries: { times: 2, backoffSeconds: 10 },
        run: (call) => asResult(call, () => readInventory(call, memory)),
      },
    ],
  };
}

async function readInventory(call: StepCall<RedfishSettings>, memory: DriverMemory | undefined): Promise<StepResult> {
  const read = async (service: RedfishService): Promise<StepResult> => {
    await acceptSystem(service, call.settings);
    const identity = await readIdentity(service, call.settings);
    call.progress(30, "the machine's identity is read");
    const components = await readComponents(service, call.settings, (percent, what) => call.progress(percent, what));
    const inventory = { ...identity, ...components };
    for (const line of unhealthy(inventory).slice(0, LINES_MAX)) call.log(line);
    const unread = [...service.unread].map(([path, { reason }]) => ({ path, reason, health: "UNKNOWN" }));
    if (unread.length === 0) return { kind: "done", output: inventory };
    call.log(`${unread.length} resources of the BMC could not be read:`);
    for (const { path, reason } of unread.slice(0, LINES_MAX)) call.log(`${path}: ${reason}`);
    return { kind: "done", output: { ...inventory, unread } };
  };
  return withService(call, memory, read, { isPartial: true });
}
