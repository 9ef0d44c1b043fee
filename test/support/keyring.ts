/** The keyring of a test database, and secrets read as the engine reads them. */
import { createSecretKey } from "node:crypto";
import type { Database } from "../../src/store/postgres/database.ts";
import { openKeyring, orThrow } from "../../src/store/secrets/keyring.ts";
import type { Keyring } from "../../src/store/secrets/keyring.ts";
import { SECRETS, secretsOf as readSecrets } from "../../src/store/secrets/secrets.ts";
import type { SecretColumn } from "../../src/store/secrets/secrets.ts";
import type { Secrets } from "../../src/store/nodes/nodes.ts";

/** A key that all tests share, so that several processes can use one database. */
export const TEST_KEYS = `test:${Buffer.alloc(32, 7).toString("base64")}`;

export function testKeyring(database: Pick<Database, "reader" | "transaction">): Promise<Keyring> {
  return openKeyring(database, {
    keys: [{ id: "test", secret: createSecretKey(Buffer.alloc(32, 7)) }],
    source: "The test",
  });
}

export async function secretsOf(database: Pick<Database, "reader" | "transaction">, nodeId: string): Promise<Secrets> {
  return (await secretsIn(database, SECRETS.ofNodes, nodeId)) ?? {};
}

export async function secretsIn<Value>(
  database: Pick<Database, "reader" | "transaction">,
  column: SecretColumn<Value>,
  row: string,
): Promise<Value | undefined> {
  const found = await readSecrets(database.reader, await testKeyring(database), column, [row]);
  return orThrow(found.get(row));
}
