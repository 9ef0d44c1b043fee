/** Rules for the fields of images. Each function returns the flaws of its input. */
import { invalidInput } from "../../errors.ts";
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
  if (!parsed || hasControls(url))
    return [invalidInput("Invalid url: use an address such as https://images.example/debian-13.raw.zst.", path)];
  if (parsed.username !== "" || parsed.password !== "")
    return [
      invalidInput("Invalid url: it has a user or a password. The API shows addresses; use one without them.", path),
    ];
  if (isServerless(url))
    return [
      invalidInput(
        "Invalid url: its host is a link-local, metadata, multicast or broadcast address, not a server.",
        path,
      ),
    ];
  if (url.length > IMAGE_URL_LENGTH_MAX)
    return [invalidInput(`Invalid url: use at most ${IMAGE_URL_LENGTH_MAX.toLocaleString("en")} characters.`, path)];
  return [];
}

export function checksumFlaws(algorithm: ChecksumAlgorithm, value: string, path: readonly string[]): Refusal[] {
  const digits = CHECKSUM_DIGITS[algorithm];
  if (value.length === digits && /^[0-9a-f]+$/i.test(value)) return [];
  const found = /^[0-9a-f]*$/i.test(value) ? `it has ${value.length}` : "it has other characters";
  return [
    invalidInput(`Invalid checksum: ${algorithm} has ${digits} hexadecimal digits; ${found}.`, [...path, "value"]),
  ];
}

interface ImageSizes {
  readonly format: ImageFormat;
  readonly sizeBytes: number;
  readonly diskBytes?: number | null | undefined;
}

export function sizesFlaws({ format, sizeBytes, diskBytes }: ImageSizes, path: readonly string[]): Refusal[] {
  const flaws: Refusal[] = [];
  if (sizeBytes < 1)
    flaws.push(invalidInput("Invalid sizeBytes: the file has at least 1 byte.", [...path, "sizeBytes"]));
  if (diskBytes == null) return flaws;
  if (diskBytes < 1) flaws.push(invalidInput("Invalid diskBytes: use at least 1 byte.", [...path, "diskBytes"]));
  else if (format === "RAW" && diskBytes !== sizeBytes)
    flaws.push(
      invalidInput("Invalid diskBytes: a RAW file is as large as its content; leave it out.", [...path, "diskBytes"]),
    );
  return flaws;
}

export function userDataFlaws(userData: string | null | undefined, path: readonly string[]): Refusal[] {
  if (userData == null) return [];
  if (userData === "") return [invalidInput("The user data is empty. Leave it out, or use null to remove it.", path)];
  const bytes = userDataBytes(userData);
  if (bytes <= USER_DATA_BYTES_MAX) return [];
  const [given, max] = [bytes, USER_DATA_BYTES_MAX].map((count) => count.toLocaleString("en"));
  return [
    invalidInput(`The user data has ${given} bytes; at most ${max} are stored. Let it fetch what is larger.`, path),
  ];
}

export function userDataBytes(userData: string): number {
  return Buffer.byteLength(userData);
}
