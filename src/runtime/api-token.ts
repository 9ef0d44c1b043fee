/**
 * API tokens: `ost_`, then 10 characters that name the token, 43 of its secret (256 random bits), and 6 of a checksum,
 * which finds typing errors without a query. All are digits and letters (base 62).
 */
import { hash, randomInt, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ID_LENGTH = 10;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const FORM = new RegExp(
  `^ost_([0-9A-Za-z]{${ID_LENGTH}})([0-9A-Za-z]{${SECRET_LENGTH}})([0-9A-Za-z]{${CHECKSUM_LENGTH}})$`,
);

/** A new token: the text for its owner, and what is stored of it. */
interface NewApiToken {
  readonly text: string;
  readonly id: string;
  readonly hash: string;
}

export function createApiToken(): NewApiToken {
  const id = randomDigits(ID_LENGTH);
  const secret = randomDigits(SECRET_LENGTH);
  return { text: `ost_${id}${secret}${checksumOf(id + secret)}`, id, hash: hashOf(secret) };
}

/** The parts of a token; null if it is none, or has a typing error. */
export function readApiToken(text: string): { readonly id: string; readonly secret: string } | null {
  const [, id = "", secret = "", checksum = ""] = FORM.exec(text) ?? [];
  return id !== "" && checksumOf(id + secret) === checksum ? { id, secret } : null;
}

/** Compares in constant time. */
export function isSecretOf(secret: string, stored: string): boolean {
  return timingSafeEqual(Buffer.from(hashOf(secret), "hex"), Buffer.from(stored, "hex"));
}

function hashOf(secret: string): string {
  return hash("sha256", secret);
}

function checksumOf(text: string): string {
  let rest = crc32(text);
  let digits = "";
  for (let place = 0; place < CHECKSUM_LENGTH; place += 1) {
    digits = DIGITS.charAt(rest % DIGITS.length) + digits;
    rest = Math.floor(rest / DIGITS.length);
  }
  return digits;
}

function randomDigits(length: number): string {
  return Array.from({ length }, () => DIGITS.charAt(randomInt(DIGITS.length))).join("");
}
