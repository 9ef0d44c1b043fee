/** Listening on a port, with a clear error if that fails. */
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import type { AddressInfo, Server } from "node:net";
import { SettingError } from "../../errors.ts";

/** The setting of an address and port, as it is named in errors. */
export interface ListenSetting {
  /** Variable without its ending: `OSTLER` for OSTLER_HOST and OSTLER_PORT. */
  readonly variable: string;
  /** The variable of the port, if it is not the usual one. */
  readonly portVariable?: string;
  readonly flag: string;
}

const API: ListenSetting = { variable: "OSTLER", flag: "port" };

/** Fails if address or port cannot be listened on, before a start makes or migrates a database. */
export async function checkPort(port: number, host: string, setting: ListenSetting = API): Promise<void> {
  const server = createServer();
  await listen(server, port, host, setting);
  await new Promise((done) => server.close(done));
}

/** Resolves with the port: the one that the system chose if `port` is 0. */
export function listen(server: Server, port: number, host: string, setting: ListenSetting = API): Promise<number> {
  const { variable, portVariable = `${variable}_PORT`, flag } = setting;
  const explain = ({ code, message }: NodeJS.ErrnoException) => {
    if (code === "EADDRINUSE")
      return `Port ${port} on ${host} is in use; choose another one with ${portVariable} or --${flag}.`;
    if (code === "EADDRNOTAVAIL")
      return `${variable}_HOST is ${host}, but no network interface of this machine has that address. Addresses that can be used: ${addresses().join(", ")}.`;
    return `Cannot listen on port ${port} of ${host}: ${message}. Check ${variable}_HOST and ${portVariable}.`;
  };
  return new Promise((done, failed) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      // Without `cause`: start-up takes some error codes for an unreachable database.
      failed(new (error.code === "EADDRINUSE" ? SettingError : Error)(explain(error)));
    });
    server.listen(port, host, () => {
      server.removeAllListeners("error");
      done((server.address() as AddressInfo).port);
    });
  });
}

export function shownUrl(host: string, port: number, isSecure: boolean): string {
  return `${isSecure ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function addresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((found) => found?.map(({ address }) => address) ?? []);
}
