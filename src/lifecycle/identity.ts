/**
 * The identities of a machine, in a form in which two notations of one value are equal. Values that vendors give to
 * many machines, or put where there is none, identify nothing. Pure.
 */

export const IDENTITY_KINDS = {
  CONTROLLER: "The management controller, and the system behind it.",
  UUID: "The UUID that an inspection reported.",
  SERIAL_NUMBER: "The serial number that an inspection reported.",
  MAC: "A MAC address of a network interface.",
} as const;
/** In the order of their weight: a node with several conflicts shows the first. */
export type IdentityKind = keyof typeof IDENTITY_KINDS;

/** Another node seems to be the same machine. */
export interface IdentityConflict {
  readonly kind: IdentityKind;
  /** As the machine or the settings have it. */
  readonly value: string;
  /** The other node. */
  readonly nodeId: string;
  readonly nodeName: string;
  /** RFC 3339. */
  readonly since: string;
}

const KIND_WORDS: Readonly<Record<IdentityKind, string>> = {
  CONTROLLER: "management controller",
  UUID: "UUID",
  SERIAL_NUMBER: "serial number",
  MAC: "MAC address",
};

type Shared = Pick<IdentityConflict, "kind" | "value" | "nodeName">;

/** The remedy for two nodes with the same value. */
export function conflictRemedy({ kind }: Pick<Shared, "kind">): string {
  return kind === "CONTROLLER"
    ? "Delete one of the nodes, correct its address with updateNodes, or set sharedController: true if there are several machines behind the controller."
    : "Delete one of the nodes, correct its address with updateNodes and inspect it, or add the value to sharedIdentities of the site if several machines have it.";
}

/** Why a node with a conflict is refused. */
export function conflictMessage(name: string, shared: Shared): string {
  return `Node ${name} ${conflictReason(shared)}`;
}

/** The same without the name of the node. */
export function conflictReason({ kind, value, nodeName }: Shared): string {
  return `seems to be the same machine as node ${nodeName}: both have the ${KIND_WORDS[kind]} ${value}. ${conflictRemedy({ kind })}`;
}

/** Ports that a notation of an address may leave out, as all drivers do not have the same. */
const DEFAULT_PORTS: ReadonlySet<string> = new Set(["80", "443", "623"]);
const WITH_PORT = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/;

/** The identity of a management controller: on their default ports, two drivers reach the same one at an address. */
export function controllerKey(controller: string): string {
  const text = controller.trim().toLowerCase();
  const [, address = text, port = ""] = WITH_PORT.exec(text) ?? [];
  const host = hostKey(address.replaceAll(/^\[|\]$/g, "").replace(/\.$/, ""));
  if (port === "" || DEFAULT_PORTS.has(port)) return host;
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

const IP_NOTATION = /^[0-9a-fx.:]+$/;
const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/** An IP address in one of its notations, such as octal, a single number or IPv4-mapped, or a name as it is. */
function hostKey(host: string): string {
  const url = `http://${host.includes(":") ? `[${host}]` : host}`;
  if (!IP_NOTATION.test(host) || !URL.canParse(url)) return host;
  const address = new URL(url).hostname.replaceAll(/^\[|\]$/g, "");
  const words = MAPPED.exec(address)
    ?.slice(1)
    .map((word) => Number.parseInt(word, 16));
  return words ? words.flatMap((word) => [word >> 8, word & 255]).join(".") : address;
}

/** Letters and digits of texts that stand where there is no serial number. */
const FILLERS: ReadonlySet<string> = new Set(
  `NA NONE NULL NIL UNKNOWN UNDEFINED UNSPECIFIED NOTSPECIFIED NOTAVAILABLE NOTAPPLICABLE NOTPROVIDED NOTSET
  NOTDEFINED INVALID EMPTY DEFAULT DEFAULTSTRING OEM OEMSTRING TOBEFILLEDBYOEM TOBEFILLED TBD SERIAL SERIALNUMBER
  SYSTEMSERIALNUMBER CHASSISSERIALNUMBER BOARDSERIALNUMBER BASEBOARDSERIALNUMBER MBSERIALNUMBER SYSTEMSERIAL
  CHASSISSERIAL INSYDE INSYDECORP`.split(/\s+/),
);
const SEQUENCES = ["0123456789ABCDEF", "123456789ABCDEF", "0123456789", "1234567890", "123456789"];
const SEQUENCE_LENGTH_MIN = 6;
const SERIAL_LENGTH_MAX = 128;

/** Null if the serial number, of a machine or a part of one, identifies nothing. */
export function serialKey(serial: string): string | null {
  const text = serial.trim().replaceAll(/\s+/g, " ").toUpperCase();
  const bare = text.replaceAll(/[^\p{L}\p{N}]/gu, "");
  const isSequence = bare.length >= SEQUENCE_LENGTH_MIN && SEQUENCES.some((one) => one.repeat(9).startsWith(bare));
  return /^(.?)\1*$/u.test(bare) || isSequence || FILLERS.has(bare) ? null : text.slice(0, SERIAL_LENGTH_MAX);
}

const UUID_DIGITS = /^[0-9a-f]{32}$/;

/**
 * Null if the UUID identifies no machine. SMBIOS stores the first three fields in the other order of bytes, and not all
 * readers turn them round, so both orders are one UUID.
 */
export function uuidKey(uuid: string): string | null {
  const digits = uuid
    .toLowerCase()
    .replace(/^\s*urn:uuid:/, "")
    .replaceAll(/[\s{}-]/g, "");
  const key = UUID_DIGITS.test(digits) ? orderless(digits) : null;
  return key === null || /^(.)\1*$/.test(key) || SHARED_UUIDS.has(key) ? null : key;
}

/** The lesser of the two orders of bytes. */
function orderless(digits: string): string {
  const turned = (from: number, to: number) => digits.slice(from, to).match(/../g)?.toReversed().join("") ?? "";
  const other = turned(0, 8) + turned(8, 12) + turned(12, 16) + digits.slice(16);
  return digits < other ? digits : other;
}

const SHARED_UUIDS: ReadonlySet<string> = new Set(
  [
    "03000200040005000006000700080009",
    "00020003000400050006000700080009",
    "123456781234567890abcddeefaabbcc",
    "12345678123412341234123456789abc",
    "12345678123412341234123456789012",
    "12345678123456781234567812345678",
    "0123456789abcdef0123456789abcdef",
    "000102030405060708090a0b0c0d0e0f",
    "11111111222233334444555555555555",
    "ffffff00ffffffffffffffffffffffff",
    "fefefefefefefefefefefefefefefefe",
  ].map(orderless),
);

/** Interfaces between a machine and its own BMC have the same address on every machine of a model. */
const INTERNAL_INTERFACE = /usb|host.?interface|virtual.?nic|rndis|\bcdc|idrac/i;
/** Groups, and addresses that software or a vendor has chosen: bridges and links to BMCs have equal ones everywhere. */
const MULTICAST_OR_LOCAL = 0b11;

/** Whether a MAC, in lower case with colons, identifies the machine with this interface. */
export function isMeaningfulMac(mac: string, interfaceName: string): boolean {
  const isUniversal = (Number.parseInt(mac.slice(0, 2), 16) & MULTICAST_OR_LOCAL) === 0;
  const isOneByte = mac.replaceAll(mac.slice(0, 2), "").replaceAll(":", "") === "";
  return isUniversal && !isOneByte && mac !== "00:11:22:33:44:55" && !INTERNAL_INTERFACE.test(interfaceName);
}
