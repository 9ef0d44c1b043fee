/** The refusal of a request that needs a secret which cannot be decrypted. */
import type { Refusal } from "../../errors.ts";
import type { SecretError } from "../../store/secrets/keyring.ts";

/** `whose`: as in "Node rack3-u12". */
export function unreadableSecret(whose: string, { message }: SecretError, nodeId?: string): Refusal {
  return { code: "SECRET_UNREADABLE", message: `${whose}: ${message}`, ...(nodeId !== undefined && { nodeId }) };
}
