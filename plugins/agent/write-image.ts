/** The deploy step that writes the image to the root disk. */
import type { ImageView, Json, StepArgs } from "../../src/drivers/driver.ts";
import { abandon } from "./abandon.ts";
import type { AgentCall, AgentStep } from "./call.ts";
import { imageProblem, machineProblem } from "./image.ts";
import { limitWithBoot, throughAgent } from "./task-step.ts";
import type { AgentWork } from "./task-step.ts";
import { variablesOf } from "./variables.ts";

const writing: AgentWork<StepArgs> = {
  limitSeconds: 4 * 3600,
  what: ({ image, node }) => `Image ${image?.name ?? "(none)"} could not be written to node ${node.name}`,
  async task(call, agent) {
    const { image } = call;
    const problem = imageProblem(call) ?? machineProblem(call, agent);
    if (problem !== null || image === null) return { problem: problem ?? "There is no image." };
    const { url, format, sizeBytes, checksum, diskBytes } = image;
    const hints = rootDiskOf(call);
    return {
      kind: "write_image",
      args: {
        image: { url, format, sizeBytes, checksum },
        rootDisk: hints,
        ...(diskBytes !== null && { minimumBytes: diskBytes }),
      },
    };
  },
  output: (output, { image }) => ({
    ...(image && { image: { id: image.id, name: image.name, checksum: image.checksum } }),
    ...membersOf(output),
  }),
  // The service did not serve the image, for example during an upgrade. It has received the failure, so it does now.
  hasPassed: (code, { image }) => code === "IMAGE_UNREACHABLE" && isStored(image),
  // The address of an image can contain a password.
  hidden: ({ image }) => (image && !isStored(image) ? [{ text: image.url, by: `image ${image.name}` }] : []),
};

/** By the service, at an address without its name. */
const isStored = (image: ImageView | null) => image?.url.startsWith("/") === true;

export const writeImage: AgentStep = {
  name: "write_image",
  title: "Write the image to the root disk",
  phase: "deploy",
  priority: 80,
  interruptible: "ALWAYS",
  timeoutSeconds: limitWithBoot(writing),
  idempotent: true,
  retries: { times: 2, backoffSeconds: 10 },
  touches: ["DISKS"],
  run: (call) => throughAgent(call, writing),
  abort: (call) => abandon(call, { powerOff: false }),
};

/** The hints of the request, or else of the node; null if there are none. */
export function rootDiskOf(call: Pick<AgentCall, "variables" | "settings">): Json {
  const hints = variablesOf(call).root_disk ?? call.settings.rootDisk;
  if (!hints) return null;
  const given = Object.entries(hints).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  return Object.fromEntries(given);
}

function membersOf(output: Json): Readonly<Record<string, Json>> {
  return typeof output === "object" && output !== null && !Array.isArray(output)
    ? (output as Readonly<Record<string, Json>>)
    : {};
}
