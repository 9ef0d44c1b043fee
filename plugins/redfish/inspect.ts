/** Inspection through the BMC: it affects no running system. */
import type { DriverMemory, InspectInterface, Json, Step, StepCall } from "../../src/drivers/driver.ts";
import { readComponents, readIdentity, unhealthy } from "./inventory.ts";
import { withService } from "./service.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { asResult } from "./step-result.ts";

type InspectCall = StepCall<RedfishSettings>;

export function redfishInspect(memory: DriverMemory | undefined): InspectInterface<RedfishSettings> {
  return {
    withoutReboot: true,
    supportsAbort: true,
    steps: [
      inspectStep(memory, {
        name: "read_identity",
        title: "Read manufacturer, model, chassis, location, firmware and BMC",
        priority: 20,
        read: (service, { settings }) => readIdentity(service, settings),
      }),
      inspectStep(memory, {
        name: "read_components",
        title: "Read processors, memory, disks, network interfaces and PCIe devices",
        priority: 10,
        read: (service, call) =>
          readComponents(service, call.settings, (percent, what) => call.progress(percent, what)),
      }),
    ],
  };
}

interface Inspection {
  readonly name: string;
  readonly title: string;
  readonly priority: number;
  readonly read: (service: RedfishService, call: InspectCall) => Promise<Json>;
}

function inspectStep(
  memory: DriverMemory | undefined,
  { name, title, priority, read }: Inspection,
): Step<RedfishSettings> {
  return {
    name,
    title,
    phase: "inspect",
    priority,
    interruptible: "ALWAYS",
    timeoutSeconds: 600,
    idempotent: true,
    touches: [],
    retries: { times: 2, backoffSeconds: 10 },
    run: (call) =>
      asResult(call, () =>
        withService(call, memory, async (service) => {
          const output = await read(service, call);
          for (const line of unhealthy(output).slice(0, 20)) call.log(line);
          return { kind: "done", output };
        }),
      ),
  };
}
