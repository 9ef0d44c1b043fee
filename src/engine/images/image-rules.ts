/** Rules for the fields of images. Each function returns the flaws of its input. */
import { flawIf, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { CHECKSUM_DIGITS } from "../../lifecycle/images.ts";
import type { ChecksumAlgorithm, ImageFormat } from "../../lifecycle/images.ts";
import { isServerless } from "../../runtime/file-servers.ts";
import { hasControls } from "../../runtime/text.ts";

const IMAGE_URL_LENGTH_MAX = 2_000;

/** Bytes of user data in UTF-8. */
const USER_DATA_BYTES_MAX = 64 * 1024;

/** Images in one request. */
export const IMAGES_MAX = 100;

export function imageUrlFlaws(url: string | undefined, path: readonly string[]): Refusal[] {
  if (url === undefined) return [];
  // The parser would take the path of http:///a for its host.
  const parsed = /^https?:\/\/[^/\\]/i.test(url) && URL.canParse(url) ? new URL(url) : null;
  const flaw = (what: string) => [invalidInput(`Invalid url: ${what}`, path)];
  if (!parsed || hasControls(url)) return flaw("use an address such as https://images.example/debian-13.raw.zst.");
  if (parsed.username !== "" || parsed.password !== "")
    return flaw("it has a user or a password. The API shows addresses; use one without them.");
  if (isServerless(url))
    return flaw("its host is a link-local, metadata, multicast or broadcast address, not a server.");
  if (url.length <= IMAGE_URL_LENGTH_MAX) return [];
  return flaw(`use at most ${IMAGE_URL_LENGTH_MAX.toLocaleString("en")} characters.`);
}

export function checksumFlaws(algorithm: ChecksumAlgorithm, value: string, path: readonly string[]): Refusal[] {
  const digits = CHECKSUM_DIGITS[algorithm];
  const isHex = /^[0-9a-f]*$/i.test(value);
  const found = isHex ? `it has ${value.length}` : "it has other characters";
  const message = `Invalid checksum: ${algorithm} has ${digits} hexadecimal digits; ${found}.`;
  return flawIf(!isHex || value.length !== digits, message, [...path, "value"]);
}

interface ImageSizes {
  readonly format: ImageFormat;
  readonly sizeBytes: number;
  readonly diskBytes?: number | null | undefined;
}

export function sizesFlaws({ format, sizeBytes, diskBytes }: ImageSizes, path: readonly string[]): Refusal[] {
  const isTooSmall = diskBytes != null && diskBytes < 1;
  const isOther = diskBytes != null && !isTooSmall && format === "RAW" && diskBytes !== sizeBytes;
  const other = "Invalid diskBytes: a RAW file is as large as its content; leave it out.";
  return [
    ...flawIf(sizeBytes < 1, "Invalid sizeBytes: the file has at least 1 byte.", [...path, "sizeBytes"]),
    ...flawIf(isTooSmall, "Invalid diskBytes: use at least 1 byte.", [...path, "diskBytes"]),
    ...flawIf(isOther, other, [...path, "diskBytes"]),
  ];
}

export function userDataFlaws(userData: string | null | undefined, path: readonly string[]): Refusal[] {
  if (userData == null) return [];
  if (userData === "") return [invalidInput("The user data is empty. Leave it out, or use null to remove it.", path)];
  const bytes = userDataBytes(userData);
  const [given, max] = [bytes, USER_DATA_BYTES_MAX].map((count) => count.toLocaleString("en"));
  const message = `The user data has ${given} bytes; at most ${max} are stored. Let it fetch what is larger.`;
  return flawIf(bytes > USER_DATA_BYTES_MAX, message, path);
}

export function userDataBytes(userData: string): number {
  return Buffer.byteLength(userData);
}
