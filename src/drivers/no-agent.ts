/** The agent of a node where there is none: outside of a service, and in one without a provisioning listener. */
import type { NodeAgent } from "./driver.ts";
import { unsupported } from "./driver-error.ts";

export function noAgent(reason: string): NodeAgent {
  const refuse = async () => {
    throw unsupported(reason);
  };
  return { status: refuse, open: refuse, assign: refuse, close: refuse, homeUrl: refuse };
}
