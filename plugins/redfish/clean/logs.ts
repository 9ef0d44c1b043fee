/** Clears the logs of the system, its managers and its chassis (DSP0268, LogService.ClearLog). */
import type { DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { link, text } from "../resource.ts";
import type { RedfishService } from "../service.ts";
import { action, chassisOf, findSystem, managersOf } from "../system.ts";
import { onService } from "./clean-step.ts";
import type { CleanCall, CleanStep } from "./clean-step.ts";

export function clearLogs(memory: DriverMemory | undefined): CleanStep {
  return {
    name: "clear_logs",
    title: "Clear the event logs of the machine and its BMC",
    phase: "clean",
    priority: 0,
    group: "management",
    interruptible: "ALWAYS",
    timeoutSeconds: 600,
    idempotent: true,
    touches: [],
    run: onService(memory, clear),
  };
}

async function clear(service: RedfishService, call: CleanCall): Promise<StepResult> {
  const system = await findSystem(service, call.settings);
  const owners = [system, ...(await managersOf(service, system)), ...(await chassisOf(service, system))];
  const collections = new Set(owners.flatMap(({ resource }) => link(resource, "LogServices") ?? []));
  const cleared: string[] = [];
  for (const collection of collections) {
    for (const log of await service.members(collection, "log services")) {
      const target = action(log, "LogService.ClearLog")?.target;
      if (target === undefined) continue;
      const name = text(log, "@odata.id") ?? text(log, "Id") ?? "log";
      await service.post(target, {}, `clear the log ${name}`);
      cleared.push(name);
    }
  }
  return { kind: "done", output: { clearedLogs: cleared } };
}
