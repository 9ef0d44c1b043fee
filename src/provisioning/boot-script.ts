/**
 * The scripts that iPXE executes. A script ends in the agent, or says on the console why not and lets the firmware go
 * on with its next boot device. `exit 1` and not `exit`: UEFI firmware takes success for a completed boot, and stops at
 * its menu.
 */
import type { Architecture } from "../drivers/driver.ts";
import { ARCHITECTURE_FOLDERS } from "./agent-media.ts";

/** Attempts of a machine to reach the service, and seconds between them: a restart of the service takes less. */
const TRIES_MAX = 24;
const PAUSE_SECONDS = 5;
/** Seconds for a person to read a message. */
const READ_SECONDS = 3;
/** Network ports whose address a machine reports. */
const PORTS = ["netX", "net0", "net1", "net2", "net3", "net4", "net5", "net6", "net7"] as const;

export const BOOT_SCRIPT_PATH = "/boot/ipxe";

/** The script for a machine that has not yet sent its addresses. */
export function firstScript(url: string): string {
  const macs = PORTS.map((port) => `mac=\${${port}/mac:hexhyp}`).join("&");
  return script([
    `set ostler-url ${url}${BOOT_SCRIPT_PATH}?uuid=\${uuid}&arch=\${buildarch}&${macs}`,
    "set ostler-tries:int32 0",
    "chain --autofree --replace ${ostler-url} || goto again",
    ...again(),
  ]);
}

/** Boots the agent. If a download fails, the machine fetches its script again, as the service may be restarting. */
export function agentScript(
  url: string,
  { architecture, session, kernelArguments }: AgentBoot,
  macs: readonly string[],
): string {
  const files = `${url}/boot/agent/${ARCHITECTURE_FOLDERS[architecture]}`;
  const query = macs.map((mac) => `mac=${mac}`).join("&");
  return script([
    "echo Ostler: booting the agent",
    `isset \${ostler-url} || set ostler-url ${url}${BOOT_SCRIPT_PATH}?uuid=\${uuid}&arch=\${buildarch}&${query}`,
    "isset ${ostler-tries} || set ostler-tries:int32 0",
    "imgfree",
    // UEFI kernels find the ramdisk by its name.
    `kernel --name vmlinuz ${files}/vmlinuz?session=${session} initrd=initrd ${kernelArguments.join(" ")} || goto again`,
    `initrd --name initrd ${files}/initrd?session=${session} || goto again`,
    "boot || goto again",
    ...again(),
  ]);
}

interface AgentBoot {
  readonly architecture: Architecture;
  readonly session: string;
  readonly kernelArguments: readonly string[];
}

/** Says why the machine does not boot the agent, and goes on with the next boot device. */
export function localBootScript(reason: string): string {
  return script([
    `echo Ostler: ${printable(reason)}`,
    "echo Ostler: going on with the next boot device",
    `sleep ${READ_SECONDS}`,
    "exit 1",
  ]);
}

function again(): readonly string[] {
  return [
    ":again",
    "imgfree",
    "inc ostler-tries",
    `iseq \${ostler-tries} ${TRIES_MAX} && goto end ||`,
    `echo Ostler: the service did not answer as expected; trying again in ${PAUSE_SECONDS} s`,
    `sleep ${PAUSE_SECONDS}`,
    "chain --autofree --replace ${ostler-url} || goto again",
    ":end",
    "echo Ostler: giving up; going on with the next boot device",
    "exit 1",
  ];
}

function script(lines: readonly string[]): string {
  return `#!ipxe\n${lines.join("\n")}\n`;
}

/** Text for `echo`, without characters that have a meaning in a script. */
function printable(text: string): string {
  return text.replaceAll(/[^\w .,:;()/+-]/g, "?");
}
