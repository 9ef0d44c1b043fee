/** The certificate of the listeners for machines, and its private key: one row, which all replicas share. */
import type { Database } from "./postgres/database.ts";
import { orThrow } from "./secrets/keyring.ts";
import type { Keyring } from "./secrets/keyring.ts";
import { mapSecrets, SECRETS, secretsOf } from "./secrets/secrets.ts";
import { machineCertificate } from "./tables.ts";

/** The id of the row. */
const ROW = "machines";
const CELL = { column: SECRETS.machineKey, row: ROW };

interface StoredCertificate {
  readonly cert: string;
  readonly key: string;
}

/** The certificate; `make` is called if there is none. Of replicas that make one at the same time, the first wins. */
export function sharedCertificate(
  { transaction }: Pick<Database, "transaction">,
  keyring: Keyring,
  make: () => Promise<StoredCertificate>,
): Promise<StoredCertificate> {
  return transaction(async (tx) => {
    const stored = () => tx.select().from(machineCertificate);
    if ((await stored()).length === 0) {
      const { cert, key } = await make();
      const row = { id: ROW, certificate: cert, key: mapSecrets(CELL, key, await keyring.encryption(tx)) };
      await tx.insert(machineCertificate).values(row).onConflictDoNothing();
    }
    const [row] = await stored();
    if (!row) throw new Error("The certificate for machines was deleted while it was made. Start again.");
    const keys = await secretsOf(tx, keyring, CELL.column, [ROW]);
    return { cert: row.certificate, key: orThrow(keys.get(ROW) ?? row.key) };
  });
}
