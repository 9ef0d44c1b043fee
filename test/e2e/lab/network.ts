/**
 * The provisioning network: a bridge with one tap for each machine. It exists only in the network namespace of this
 * process, so nothing of it outlives the test, and no machine reaches anything else.
 */
import { run } from "./commands.ts";

const BRIDGE = "provision0";
export const HOST = "10.77.0.1";
export const HOST_V6_PREFIX = "fd77::";
const HOST_V6 = `${HOST_V6_PREFIX}1`;

/** Address that the DHCP server gives to a machine. */
export const machineAddress = (number: number): string => `10.77.0.${10 + number}`;
const tapName = (number: number): string => `tap${number}`;
export const bridgeName = (): string => BRIDGE;

export async function createNetwork(machines: number): Promise<void> {
  const ip = (line: string) => run("ip", line.split(" "));
  await ip("link set lo up");
  // Without forward_delay 0 a new port forwards nothing for 15 s.
  await ip(`link add ${BRIDGE} type bridge forward_delay 0`);
  await ip(`addr add ${HOST}/24 dev ${BRIDGE}`);
  await ip(`addr add ${HOST_V6}/64 dev ${BRIDGE} nodad`);
  await ip(`link set ${BRIDGE} up`);
  for (let number = 1; number <= machines; number += 1) {
    await ip(`tuntap add dev ${tapName(number)} mode tap`);
    await ip(`link set ${tapName(number)} master ${BRIDGE}`);
    await ip(`link set ${tapName(number)} up`);
  }
}

/** Cuts the cable of a machine, or connects it again. */
export async function setCable(number: number, state: "up" | "down"): Promise<void> {
  await run("ip", ["link", "set", tapName(number), state]);
}
