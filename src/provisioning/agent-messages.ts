/** The messages of agents, checked: anything on the provisioning network can send anything. */
import { isIP } from "node:net";
import type { AgentResult } from "../drivers/driver.ts";
import type { AgentReport, Bearer } from "../engine/agents/agents.ts";
import { macOf } from "../runtime/mac-address.ts";
import { plainText } from "../runtime/text.ts";
import { PROTOCOL } from "./agent-media.ts";
import type { StoredJson } from "../store/records.ts";

const TEXT_LENGTH_MAX = 200;
const MESSAGE_LENGTH_MAX = 4_000;
const MACS_MAX = 64;
/** Maximum nesting of the JSON values that are stored. */
const NESTING_MAX = 32;

type Fields = Readonly<Record<string, unknown>>;

/** The session and the secret of a request; null if it has none that could be valid. */
export function bearerOf(authorization: string | undefined): Bearer | null {
  return bearerFrom(/^Bearer ([\w.-]{1,300})$/i.exec(authorization ?? "")?.[1] ?? "");
}

/** `session.secret`, as in the path of a medium. */
export function bearerFrom(text: string): Bearer | null {
  const [, session, secret] = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([\w-]{16,200})$/.exec(text) ?? [];
  return session !== undefined && secret !== undefined ? { session, secret } : null;
}

/** A report, or the reason why it is none. `from`: the address that the request came from. */
export function reportOf(value: unknown, from: string): AgentReport | string {
  if (!isFields(value)) return "The report must be an object.";
  const { instance, version, protocol, architecture, bootMode, address, macs, disks, task } = value;
  if (!isText(instance) || instance.length < 8) return "instance must be a random text of at least 8 characters.";
  if (!isText(version)) return "version must be a text.";
  if (protocol !== PROTOCOL) return `This service speaks protocol ${PROTOCOL}. Build the agent's boot media again.`;
  if (architecture !== "X64" && architecture !== "ARM64") return "architecture must be X64 or ARM64.";
  if (bootMode !== "UEFI" && bootMode !== "BIOS") return "bootMode must be UEFI or BIOS.";
  if (!Array.isArray(macs) || macs.length > MACS_MAX) return `macs must be a list of at most ${MACS_MAX} addresses.`;
  const known = macs.map((mac) => (typeof mac === "string" ? macOf(mac) : null)).filter((mac) => mac !== null);
  const progress = task === undefined || task === null ? undefined : taskOf(task);
  if (typeof progress === "string") return progress;
  return {
    instance,
    version,
    protocol,
    architecture,
    bootMode,
    address: typeof address === "string" && isIP(address) !== 0 ? address : from,
    macs: known,
    ...(Number.isSafeInteger(disks) && { disks: Number(disks) }),
    ...(progress && { task: progress }),
  };
}

function taskOf(value: unknown): NonNullable<AgentReport["task"]> | string {
  if (!isFields(value) || !isText(value["id"])) return "task must have an id.";
  const { id, percent, message } = value;
  if (percent !== undefined && percent !== null && !Number.isFinite(percent)) return "task.percent must be a number.";
  return {
    id,
    percent: Math.min(100, Math.max(0, Number(percent ?? 0))),
    message: typeof message === "string" ? plainText(message).slice(0, MESSAGE_LENGTH_MAX).toWellFormed() : null,
  };
}

/** A result and the agent that sends it, or the reason why it is none. */
export function resultOf(value: unknown): { readonly instance: string; readonly result: AgentResult } | string {
  if (!isFields(value)) return "The result must be an object.";
  const { instance, task, ok, output, error } = value;
  if (!isText(instance)) return "instance must be a text.";
  if (!isText(task)) return "task must be the ID of a task.";
  if (ok === true) {
    const stored = storableJson(output ?? null);
    return stored === undefined
      ? "output is nested too deeply."
      : { instance, result: { task, ok: true, output: stored } };
  }
  if (ok !== false || !isFields(error)) return "ok must be true or false, and a failure must have an error.";
  const { code, message, retryable, retried } = error;
  if (!isText(code)) return "error.code must be a text.";
  if (typeof message !== "string") return "error.message must be a text.";
  const text = plainText(message).slice(0, MESSAGE_LENGTH_MAX).toWellFormed();
  return {
    instance,
    result: {
      task,
      ok: false,
      error: { code, message: text, retryable: retryable === true, ...(retried === true && { retried }) },
    },
  };
}

/**
 * A copy whose texts can be stored: serial numbers and firmware texts have any bytes, and a report that is refused for
 * them would be sent forever. Undefined if it is nested too deeply.
 */
export function storableJson(value: unknown, depth = 0): StoredJson | undefined {
  if (depth > NESTING_MAX) return undefined;
  if (typeof value === "string") return plainText(value);
  if (typeof value === "number" || typeof value === "boolean" || value === null) return value;
  if (typeof value !== "object") return undefined;
  if (Array.isArray(value)) {
    const members = value.map((member) => storableJson(member, depth + 1));
    return members.every((member) => member !== undefined) ? members : undefined;
  }
  const entries: [string, StoredJson][] = [];
  for (const [key, member] of Object.entries(value)) {
    const stored = storableJson(member, depth + 1);
    if (stored === undefined) return undefined;
    entries.push([plainText(key), stored]);
  }
  return Object.fromEntries(entries);
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= TEXT_LENGTH_MAX && /^[\x20-\x7e]+$/.test(value);
}
