/** The certificate of the listeners for machines, and its private key: one row, which all replicas share. */
import type { Database, Reader, Tx } from "./postgres/database.ts";
import { orThrow } from "./secrets/keyring.ts";
import type { Keyring } from "./secrets/keyring.ts";
import { SECRET_COLUMNS, decryptSecrets, encryptSecrets } from "./secrets/secret-columns.ts";
import { machineCertificate } from "./tables.ts";

/** The id of the row. */
const ROW = "machines";
const COLUMN = SECRET_COLUMNS.machineKey;

export interface StoredCertificate {
  readonly cert: string;
  readonly key: string;
}

/** The certificate; `make` is called if there is none. Of replicas that make one at the same time, the first wins. */
export async function sharedCertificate(
  database: Pick<Database, "reader" | "transaction">,
  keyring: Keyring,
  make: () => Promise<StoredCertificate>,
): Promise<StoredCertificate> {
  const found = await readCertificate(database.reader, keyring);
  if (found) return found;
  const made = await make();
  await database.transaction((tx) => storeCertificate(tx, keyring, made));
  const stored = await readCertificate(database.reader, keyring);
  if (!stored) throw new Error("The certificate for machines was deleted while it was made. Start again.");
  return stored;
}

async function readCertificate(reader: Reader, keyring: Keyring): Promise<StoredCertificate | null> {
  const [row] = await reader.select().from(machineCertificate);
  if (!row) return null;
  const keys = await decryptSecrets(reader, keyring, COLUMN, [[ROW, row.key]]);
  return { cert: row.certificate, key: orThrow(keys.get(ROW) ?? row.key) };
}

async function storeCertificate(tx: Tx, keyring: Keyring, { cert, key }: StoredCertificate): Promise<void> {
  const encrypted = await encryptSecrets(tx, keyring, { column: COLUMN, row: ROW }, key);
  await tx.insert(machineCertificate).values({ id: ROW, certificate: cert, key: encrypted }).onConflictDoNothing();
}
