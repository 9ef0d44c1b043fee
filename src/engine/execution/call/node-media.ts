/** The virtual media of a node, through the drivers that it takes `media` from. */
import type { NodeMedia } from "../../../drivers/driver.ts";
import { urlSecrets } from "../../input/secret-redactor.ts";
import type { CallBasis } from "./driver-call.ts";
import { DriverChain } from "./interface-call.ts";

export function nodeMedia(basis: CallBasis, signal: AbortSignal): NodeMedia {
  const chain = new DriverChain(basis, signal);
  const { imageServersOf = async () => [] } = basis;
  return {
    offered: basis.machine.composition.giver("media") !== null,
    async insert(url, options) {
      // BMCs quote what they were given, in any spelling.
      basis.machine.redactor.hide(urlSecrets(url));
      const imageServers = await imageServersOf([url]);
      const writeProtected = options?.writeProtected ?? true;
      await chain.call({
        interface: "media",
        name: "media insert",
        imageServers,
        function: ({ media }) => media && ((call) => media.insert(call, url, { writeProtected })),
      });
    },
    eject: () =>
      chain.call({
        interface: "media",
        name: "media eject",
        function: ({ media }) => media && ((call) => media.eject(call)),
      }),
  };
}
