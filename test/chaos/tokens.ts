/** The present tokens of the accounts, which accounts.ts writes, and clients and subscribers read before each use. */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Chance } from "../durability/lab.ts";
import { TOKEN } from "./graphql-request.ts";

/** A credential: the token of an account, or the configured one, which has neither account nor ID. */
export interface Credential {
  readonly account: string | null;
  readonly tokenId: string | null;
  readonly token: string;
}

export const CONFIGURED: Credential = { account: null, tokenId: null, token: TOKEN };

const fileOf = (folder: string) => join(folder, "tokens.json");

export function writeTokens(folder: string, tokens: readonly Credential[]): void {
  writeFileSync(`${fileOf(folder)}.new`, JSON.stringify(tokens));
  renameSync(`${fileOf(folder)}.new`, fileOf(folder));
}

export function readTokens(folder: string): readonly Credential[] {
  return JSON.parse(readFileSync(fileOf(folder), "utf8")) as readonly Credential[];
}

/** The present credential of an account; null: the configured one. */
export function credentialOf(folder: string, account: string | null): Credential {
  return (account === null ? undefined : readTokens(folder).find((one) => one.account === account)) ?? CONFIGURED;
}

/** An account, with this probability; otherwise null, for the configured token. */
export function someAccount(folder: string, random: Chance, probability: number): string | null {
  return random.often(probability) ? random.one(readTokens(folder)).account : null;
}
