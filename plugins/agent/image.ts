/** Whether an image can be installed on a node. Pure. */
import type { AgentStatus } from "../../src/drivers/driver.ts";
import type { AgentCall } from "./call.ts";

/** The problem that shows before the machine is touched; null if there is none. */
export function imageProblem({ image, node, settings }: Pick<AgentCall, "image" | "node" | "settings">): string | null {
  if (image === null)
    return `Node ${node.name} has no image to install. Name one in the request, as in deployNodes(input: { image: … }).`;
  if (image.architecture !== settings.architecture)
    return `Image ${image.name} is for ${image.architecture}, but node ${node.name} is set to ${settings.architecture}. Choose another image, or correct the setting architecture.`;
  const { bootMode } = settings;
  if (bootMode !== undefined && image.bootMode !== null && image.bootMode !== bootMode)
    return `Image ${image.name} starts in mode ${image.bootMode} only, but node ${node.name} is set to ${bootMode}. Choose another image, or correct the setting bootMode.`;
  if (!image.callsHome && settings.callHome === "REQUIRED")
    return `The system of image ${image.name} does not call home, but node ${node.name} requires it. Choose another image, or set callHome to NOT_REQUIRED.`;
  return null;
}

/** The problem that only the running machine shows; null if there is none. */
export function machineProblem(
  { image, node }: Pick<AgentCall, "image" | "node">,
  { bootMode }: Pick<AgentStatus, "bootMode">,
): string | null {
  if (image === null || bootMode === null || image.bootMode === null || image.bootMode === bootMode) return null;
  return `Image ${image.name} starts in mode ${image.bootMode} only, but node ${node.name} runs in mode ${bootMode}. Choose another image, or set bootMode to ${image.bootMode}.`;
}
