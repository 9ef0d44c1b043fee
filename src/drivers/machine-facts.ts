/**
 * Checks what a driver reads of a machine: firmware, BIOS settings, boot device and console. Drivers are not trusted,
 * so each value is checked member by member, and unknown members are dropped.
 */
import { isRecord } from "../runtime/json-values.ts";
import type { BiosAttribute, BiosValue, BootOverride, FirmwareComponent } from "./driver.ts";

/** Longer lists are cut. */
const COMPONENTS_MAX = 1_000;
const ATTRIBUTES_MAX = 5_000;
const ALLOWED_VALUES_MAX = 200;
const TEXT_LENGTH_MAX = 1_000;

const BOOT_SOURCES = ["PXE", "DISK", "CDROM", "BIOS", "HTTP"] as const;
const ATTRIBUTE_TYPES = ["STRING", "INTEGER", "BOOLEAN", "ENUMERATION", "PASSWORD"] as const;

/** Throws if the value is not a list of components. */
export function firmwareOf(value: unknown): readonly FirmwareComponent[] {
  return listOf(value, COMPONENTS_MAX, "firmware components").map((one) => ({
    id: textOf(one["id"], "the id of a firmware component"),
    name: textOf(one["name"], "the name of a firmware component"),
    version: one["version"] === null ? null : textOf(one["version"], "the version of a firmware component"),
    updateable: typeof one["updateable"] === "boolean" ? one["updateable"] : null,
  }));
}

/** Throws if the value is not a list of BIOS attributes. A PASSWORD loses its value. */
export function biosOf(value: unknown): readonly BiosAttribute[] {
  return listOf(value, ATTRIBUTES_MAX, "BIOS attributes").map(biosAttributeOf);
}

function biosAttributeOf(one: Readonly<Record<string, unknown>>): BiosAttribute {
  const name = textOf(one["name"], "the name of a BIOS attribute");
  const type = ATTRIBUTE_TYPES.find((known) => known === one["type"]);
  if (!type) throw invalid(`the type of the BIOS attribute ${name}`);
  const { title, pending, allowedValues, minimum, maximum } = one;
  const isSecret = type === "PASSWORD";
  return {
    name,
    type,
    title: typeof title === "string" ? cut(title) : null,
    value: isSecret ? null : biosValueOf(one["value"], name),
    ...(pending !== undefined && !isSecret && { pending: biosValueOf(pending, name) }),
    ...(Array.isArray(allowedValues) && {
      allowedValues: allowedValues
        .slice(0, ALLOWED_VALUES_MAX)
        .map((allowed) => textOf(allowed, `an allowed value of the BIOS attribute ${name}`)),
    }),
    ...(typeof minimum === "number" && { minimum }),
    ...(typeof maximum === "number" && { maximum }),
    readOnly: one["readOnly"] === true,
  };
}

function biosValueOf(value: unknown, name: string): BiosValue {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  return textOf(value, `the value of the BIOS attribute ${name}`);
}

/** Throws if the value is not a boot source. */
export function bootOverrideOf(value: unknown): BootOverride {
  if (!isRecord(value)) throw invalid("the boot device");
  const device = value["device"] === null ? null : BOOT_SOURCES.find((known) => known === value["device"]);
  if (device === undefined) throw invalid("the boot device");
  const mode = value["mode"] === "UEFI" || value["mode"] === "BIOS" ? value["mode"] : null;
  return { device, persistent: value["persistent"] === true, ...(mode && { mode }) };
}

/** Throws if the value is not a URL, or if it contains credentials. */
export function consoleUrlOf(value: unknown): string {
  const text = textOf(value, "the address of the console");
  const url = URL.parse(text);
  if (!url) throw invalid("the address of the console");
  if (url.username !== "" || url.password !== "")
    throw new Error("The driver returned an address of the console that contains credentials.");
  return text;
}

function listOf(value: unknown, max: number, what: string): readonly Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(value)) throw invalid(`the list of ${what}`);
  const list: readonly unknown[] = value.slice(0, max);
  if (!list.every(isRecord)) throw invalid(`the list of ${what}`);
  return list;
}

function textOf(value: unknown, what: string): string {
  if (typeof value !== "string") throw invalid(what);
  return cut(value);
}

function cut(text: string): string {
  return text.slice(0, TEXT_LENGTH_MAX).toWellFormed();
}

function invalid(what: string): Error {
  return new Error(`The driver returned a value for ${what} that its contract does not allow.`);
}
