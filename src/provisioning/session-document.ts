/** How a machine learns its session: from the slots of the ISO, or the kernel arguments of a network boot. */
import type { BootTicket } from "../engine/agents/agents.ts";
import type { AgentMedium, MediaSlot } from "./agent-media.ts";
import type { Patch } from "./file-response.ts";

/** Maximum total length of kernel arguments; the kernel of x64 takes 2048 bytes. */
const ARGUMENTS_LENGTH_MAX = 2_000;

/** Where the agent reaches the service. */
export interface AgentContact {
  /** An address of TLS, without a slash at its end. */
  readonly url: string;
  /** SHA-256 of the only certificate that the agent accepts, in hexadecimal. */
  readonly fingerprint: string;
}

/** The bytes of the ISO for one session. Throws if a slot is too short. */
export function isoPatches(medium: AgentMedium, ticket: BootTicket, contact: AgentContact): readonly Patch[] {
  const { session, secret, network, kernelArguments } = ticket;
  const unusable = kernelArguments.find((argument) => !isArgument(argument));
  if (unusable !== undefined) throw new Error(`The kernel argument ${JSON.stringify(unusable)} cannot be passed on.`);
  const text = kernelArguments.join(" ");
  return [
    filled(medium.slot, JSON.stringify({ ...contact, session, secret, network }), "session document"),
    ...medium.argumentSlots.map((slot) => filled(slot, text, "kernel arguments")),
  ];
}

function filled({ offset, length }: MediaSlot, text: string, what: string): Patch {
  const bytes = Buffer.alloc(length, " ");
  if (Buffer.byteLength(text) > length) throw new Error(`The ${what} of a session take more than ${length} bytes.`);
  bytes.write(text);
  return { offset, bytes };
}

/**
 * Kernel arguments of a network boot; throws if one cannot be passed on. The console is the first serial port, unless
 * the arguments name another one.
 */
export function networkBootArguments(
  medium: AgentMedium,
  ticket: BootTicket,
  contact: AgentContact,
): readonly string[] {
  const { session, secret, network } = ticket;
  const given = [...medium.kernelArguments, ...ticket.kernelArguments];
  const hasConsole = given.some((argument) => argument.startsWith("console="));
  const all = [
    ...(hasConsole ? [] : ["console=tty0", `console=${SERIAL_CONSOLES[ticket.architecture]}`]),
    ...given,
    `ostler.url=${contact.url}`,
    `ostler.fingerprint=${contact.fingerprint}`,
    `ostler.session=${session}`,
    `ostler.secret=${secret}`,
    ...(network ? [`ostler.network=${Buffer.from(JSON.stringify(network)).toString("base64url")}`] : []),
  ];
  const unusable = all.find((argument) => !isArgument(argument));
  if (unusable !== undefined) throw new Error(`The kernel argument ${JSON.stringify(unusable)} cannot be passed on.`);
  if (all.join(" ").length > ARGUMENTS_LENGTH_MAX)
    throw new Error(`The kernel arguments have more than ${ARGUMENTS_LENGTH_MAX} characters.`);
  return all;
}

const SERIAL_CONSOLES = { X64: "ttyS0,115200", ARM64: "ttyAMA0,115200" } as const;

/** One word that neither iPXE nor a boot loader changes: no blanks, quotes, expansions or operators. */
function isArgument(argument: string): boolean {
  return /^[\w!%*+,./:=?@^~[\]()<>-]+$/.test(argument);
}
