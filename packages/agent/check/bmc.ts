/**
 * The BMC of a machine in QEMU, as the machine sees it from inside (KCS): it answers the request for its identity and
 * those for the parameters of its LAN channels, which QEMU's own BMC does not know. The protocol is that of QEMU's
 * device `ipmi-bmc-extern`, over a Unix socket.
 */
import { createServer } from "node:net";
import type { Server } from "node:net";

export const BMC = { address: "192.0.2.77", channel: 3, mac: "52:54:00:00:13:77" } as const;

/** Ends of a message and of a command to QEMU itself, and the mark of a byte that would be one of them. */
const [END_OF_MESSAGE, END_OF_COMMAND, ESCAPE] = [0xa0, 0xa1, 0xaa];
const SPECIAL: ReadonlySet<number> = new Set([END_OF_MESSAGE, END_OF_COMMAND, ESCAPE]);
const ESCAPE_BIT = 0x10;

/** Network functions, commands, parameters and completion codes of IPMI 2.0. */
const APPLICATION = 0x06;
const TRANSPORT = 0x0c;
const GET_DEVICE_ID = 0x01;
const GET_LAN_PARAMETERS = 0x02;
const IP_ADDRESS = 3;
const MAC_ADDRESS = 5;
const PARAMETER_REVISION = 0x11;
const OK = 0x00;
const INVALID_COMMAND = 0xc1;
const INVALID_DATA = 0xcc;
const DEVICE_ID = [0x20, 0x01, 0x02, 0x32, 0x02, 0x9f, 0x00, 0x10, 0x00, 0x01, 0x00];

/** Listens for QEMU at a path. Close it after use. */
export function startBmc(path: string): Server {
  return createServer((socket) => {
    socket.on("error", () => socket.destroy());
    let bytes: number[] = [];
    let isEscaped = false;
    socket.on("data", (chunk: Buffer) => {
      for (const byte of chunk) {
        if (byte === END_OF_MESSAGE) socket.write(answerTo(bytes));
        if (byte === END_OF_MESSAGE || byte === END_OF_COMMAND) bytes = [];
        else if (byte === ESCAPE) isEscaped = true;
        else {
          bytes.push(isEscaped ? byte & ~ESCAPE_BIT : byte);
          isEscaped = false;
        }
      }
    });
  }).listen(path);
}

/** A message is a number, the network function with two bits of LUN, the command, its data, and a checksum. */
function answerTo([id = 0, functionAndLun = 0, command = 0, ...data]: readonly number[]): Buffer {
  // The network function of an answer is one higher.
  const answer = [id, functionAndLun | 0x04, command, ...resultOf(functionAndLun >> 2, command, data)];
  const checksum = (256 - (answer.reduce((sum, byte) => sum + byte, 0) % 256)) % 256;
  const escaped = [...answer, checksum].flatMap((byte) => (SPECIAL.has(byte) ? [ESCAPE, byte | ESCAPE_BIT] : [byte]));
  return Buffer.from([...escaped, END_OF_MESSAGE]);
}

/** Channel 1 has no address, as an unused port; channel 2 does not exist. */
function resultOf(networkFunction: number, command: number, [channel, parameter]: readonly number[]): number[] {
  if (networkFunction === APPLICATION && command === GET_DEVICE_ID) return [OK, ...DEVICE_ID];
  if (networkFunction !== TRANSPORT || command !== GET_LAN_PARAMETERS) return [INVALID_COMMAND];
  if (parameter === IP_ADDRESS && channel === 1) return [OK, PARAMETER_REVISION, 0, 0, 0, 0];
  if (channel !== BMC.channel) return [INVALID_DATA];
  if (parameter === IP_ADDRESS) return [OK, PARAMETER_REVISION, ...BMC.address.split(".").map(Number)];
  if (parameter === MAC_ADDRESS)
    return [OK, PARAMETER_REVISION, ...BMC.mac.split(":").map((byte) => Number.parseInt(byte, 16))];
  return [INVALID_DATA];
}
