/**
 * Presence check of a BMC, without a login: it sends "Get Channel Authentication Capabilities", the first message of
 * every IPMI session. A BMC that answers it but fails a login has a login problem, not a network problem.
 */
import { createSocket } from "node:dgram";
import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";

/** RMCP header for IPMI, no session, then the request to the BMC (0x20): this channel, IPMI 2.0 data, administrator. */
const REQUEST = Buffer.from("0600ff07000000000000000000092018c88100388e04b5", "hex");
const RESEND_MS = 500;
/** Default time limit for the answer of a BMC that is present. */
export const PRESENCE_MILLISECONDS = 2000;

/**
 * True if an IPMI device answers within `milliseconds` after the address was resolved. False also if the address does
 * not resolve, and when the signal fires.
 */
export async function bmcAnswers(options: {
  readonly address: string;
  readonly port: number;
  readonly milliseconds: number;
  readonly signal: AbortSignal;
}): Promise<boolean> {
  const target = await resolveAddress(options.address, options.signal);
  if (target === undefined || options.signal.aborted) return false;
  const socket = createSocket(target.family === 6 ? "udp6" : "udp4");
  try {
    return await new Promise<boolean>((resolve) => {
      const no = () => resolve(false);
      const send = () => socket.send(REQUEST, (error) => error && no());
      const repeat = setInterval(send, RESEND_MS);
      const end = setTimeout(no, options.milliseconds);
      options.signal.addEventListener("abort", no, { once: true });
      // A connected socket receives datagrams from this peer only, and an error if its port is closed.
      socket.on("error", no);
      socket.on("message", (reply) => resolve(reply.length > 4 && reply[0] === 0x06 && reply[3] === 0x07));
      socket.on("close", () => {
        clearInterval(repeat);
        clearTimeout(end);
        options.signal.removeEventListener("abort", no);
      });
      socket.connect(options.port, target.address, (error?: Error) => (error === undefined ? send() : no()));
    });
  } finally {
    socket.close();
  }
}

/** Undefined if the name does not resolve, or when the signal fires; a lookup cannot be canceled. */
async function resolveAddress(name: string, signal: AbortSignal): Promise<LookupAddress | undefined> {
  const aborted = Promise.withResolvers<undefined>();
  const onAbort = () => aborted.resolve(undefined);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([lookup(name).catch(() => undefined), aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
