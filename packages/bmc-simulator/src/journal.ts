/** Records what happens on a BMC: in its log, and as an event. */
import type { Bmc } from "./bmc.ts";
import { ROOT } from "./resource.ts";

const ENTRIES_MAX = 200;

export interface Incident {
  readonly message: string;
  /** `Registry.Version.Key`, by default a change of the resource. */
  readonly messageId?: string;
  readonly severity?: "OK" | "Warning" | "Critical";
  /** Path of the resource, without the prefix. */
  readonly origin: string;
}

export function record(bmc: Bmc, { message, messageId, severity = "OK", origin }: Incident): void {
  const { state } = bmc;
  const id = messageId ?? "ResourceEvent.1.3.ResourceChanged";
  state.logMade += 1;
  const entry = { id: String(state.logMade), created: new Date().toISOString(), severity, messageId: id, message };
  state.log = [...state.log.slice(1 - ENTRIES_MAX), entry];
  bmc.events.emit({ messageId: id, message, severity, origin: ROOT + origin });
}
