/**
 * Whether a BMC is there at all, asked without a login: "Get Channel Authentication Capabilities", the message every
 * IPMI session begins with. A BMC that answers it and still fails a login has a login problem, not a network problem.
 */
import { createSocket } from "node:dgram";
import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";

/** RMCP header for IPMI, no session, then the request to the BMC (0x20): this channel, IPMI 2.0 data, administrator. */
const QUESTION = Buffer.from("0600ff07000000000000000000092018c88100388e04b5", "hex");
const ASK_EVERY_MS = 500;
/** How long a BMC that is there may take to say so. */
export const PRESENCE_MILLISECONDS = 2000;

/**
 * True when anything that speaks IPMI answers within `milliseconds` of the address being known; false also where it leads
 * nowhere, and when the signal fires.
 */
export async function bmcAnswers(options: {
  readonly address: string;
  readonly port: number;
  readonly milliseconds: number;
  readonly signal: AbortSignal;
}): Promise<boolean> {
  const target = await resolved(options.address, options.signal);
  if (target === undefined || options.signal.aborted) return false;
  const socket = createSocket(target.family === 6 ? "udp6" : "udp4");
  try {
    return await new Promise<boolean>((resolve) => {
      const no = () => resolve(false);
      const ask = () => socket.send(QUESTION, (error) => error && no());
      const repeat = setInterval(ask, ASK_EVERY_MS);
      const end = setTimeout(no, options.milliseconds);
      options.signal.addEventListener("abort", no, { once: true });
      // A connected socket takes datagrams of this one peer only, and hears when its port is closed.
      socket.on("error", no);
      socket.on("message", (reply) => resolve(reply.length > 4 && reply[0] === 0x06 && reply[3] === 0x07));
      socket.on("close", () => {
        clearInterval(repeat);
        clearTimeout(end);
        options.signal.removeEventListener("abort", no);
      });
      socket.connect(options.port, target.address, (error?: Error) => (error === undefined ? ask() : no()));
    });
  } finally {
    socket.close();
  }
}

/** What a name stands for; undefined where that is nothing, or the signal fires before it is known: no lookup can be cut. */
async function resolved(name: string, signal: AbortSignal): Promise<LookupAddress | undefined> {
  const cut = Promise.withResolvers<undefined>();
  const onAbort = () => cut.resolve(undefined);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([lookup(name).catch(() => undefined), cut.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
