/**
 * The sender of a request, and whether it used TLS. A proxy states both in headers, which anyone can send: they count
 * only if they come from a network of proxies.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { addressOf } from "../../runtime/ip-addresses.ts";
import { ipNetworks } from "../../runtime/ip-networks.ts";

export interface Senders {
  /** The address of the client: of those that a request came through, the last that is not a proxy. */
  addressOf(request: IncomingMessage): string;
  /** Whether the client is known to have used TLS. */
  isSecure(request: IncomingMessage): boolean;
}

/** `networks`: those of proxies, in CIDR notation. */
export function createSenders(networks: readonly string[]): Senders {
  const proxies = ipNetworks(networks);

  return {
    addressOf({ socket, headers }) {
      let sender = addressOf(socket);
      // Each proxy appends the address from which it got the request.
      for (const hop of listOf(headers["x-forwarded-for"]).toReversed()) {
        const address = withoutPort(hop);
        if (!proxies.has(sender) || isIP(address) === 0) break;
        sender = addressOf({ remoteAddress: address });
      }
      return sender;
    },
    isSecure({ socket, headers }) {
      if ("encrypted" in socket) return true;
      const scheme = listOf(headers["x-forwarded-proto"]).at(-1) ?? "";
      return proxies.has(addressOf(socket)) && /^(https|wss)$/i.test(scheme);
    },
  };
}

function listOf(header: string | readonly string[] | undefined): readonly string[] {
  return String(header ?? "")
    .split(",")
    .map((part) => part.trim());
}

/** Some proxies write 192.0.2.1:40000, or [2001:db8::1]:40000. */
function withoutPort(hop: string): string {
  return hop.replace(/^\[(.*)\](:\d+)?$/, "$1").replace(/^([\d.]+):\d+$/, "$1");
}
