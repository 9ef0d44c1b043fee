/** The certificate of the listeners for machines, and its private key: one row, which all replicas share. */
import type { Database, Reader, Tx } from "./postgres/database.ts";
import { machineCertificate } from "./tables.ts";

export interface StoredCertificate {
  readonly cert: string;
  readonly key: string;
}

/** The certificate; `make` is called if there is none. Of replicas that make one at the same time, the first wins. */
export async function sharedCertificate(
  database: Pick<Database, "reader" | "transaction">,
  make: () => Promise<StoredCertificate>,
): Promise<StoredCertificate> {
  const found = await readCertificate(database.reader);
  if (found) return found;
  const made = await make();
  await database.transaction((tx) => storeCertificate(tx, made));
  const stored = await readCertificate(database.reader);
  if (!stored) throw new Error("The certificate for machines was deleted while it was made. Start again.");
  return stored;
}

async function readCertificate(reader: Reader): Promise<StoredCertificate | undefined> {
  const [row] = await reader
    .select({ cert: machineCertificate.certificate, key: machineCertificate.key })
    .from(machineCertificate);
  return row;
}

async function storeCertificate(tx: Tx, { cert, key }: StoredCertificate): Promise<void> {
  await tx.insert(machineCertificate).values({ certificate: cert, key }).onConflictDoNothing();
}
