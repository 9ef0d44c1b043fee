/** Requests that HTTP clients do not send. */
import { connect } from "node:net";
import { text as readText } from "node:stream/consumers";

/** The status of a request with these lines as its head. */
export async function statusOf(url: string, ...lines: readonly string[]): Promise<number> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(`${lines.join("\r\n")}\r\nconnection: close\r\n\r\n`);
  return Number(/^HTTP\/1\.1 (\d+)/.exec(await readText(socket))?.[1]);
}
