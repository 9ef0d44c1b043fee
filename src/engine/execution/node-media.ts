/** The virtual media of a node, through the drivers that it takes `media` from. */
import type { NodeMedia } from "../../drivers/driver.ts";
import type { CallBasis } from "./driver-call.ts";
import { DriverChain } from "./interface-call.ts";

export function nodeMedia(basis: CallBasis, signal: AbortSignal): NodeMedia {
  const chain = new DriverChain(basis, signal);
  return {
    offered: basis.machine.composition.giver("media") !== null,
    insert: (url, options) =>
      chain.call({
        interface: "media",
        name: "media insert",
        isRead: false,
        function: ({ media }) =>
          media && ((call) => media.insert(call, url, { writeProtected: options?.writeProtected ?? true })),
      }),
    eject: () =>
      chain.call({
        interface: "media",
        name: "media eject",
        isRead: false,
        function: ({ media }) => media && ((call) => media.eject(call)),
      }),
  };
}
