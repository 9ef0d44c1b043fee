/**
 * Idempotency keys: a repeated request gets the answer of the first; a different request with the same key is refused.
 */
import type { Reader } from "../../store/postgres/database.ts";
import type { JsonObject } from "../../store/records.ts";
import { operationByKey, operationsOfBatch } from "../../store/operations/operations.ts";
import { runsOfOperation } from "../../store/runs/runs.ts";
import { idsOf } from "../input/ids.ts";
import { acceptedNode, answeredOperations, refuseRequest } from "../input/answers.ts";
import type { NodeAnswer, SubmitAnswer } from "../input/answers.ts";
import { fingerprint, isFingerprintOf } from "../input/secret-fingerprint.ts";
import { withoutSecrets } from "../input/variables.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import type { Caller } from "../transaction.ts";
import type { RequestTerms, VerbRequest } from "./request-terms.ts";

/** Whether the input is the same as the one whose hash was stored with the key. */
type IsSameInput = (storedHash: string | null) => boolean | Promise<boolean>;

/** The input of a request: the hash to store with its key, and the comparison with a stored one. */
export interface RequestInput {
  readonly inputHash: string;
  readonly isSameInput: IsSameInput;
}

/** The input of a request. `more`: what distinguishes it from requests with equal members. */
export async function inputOf(
  { userData, ...request }: Pick<VerbRequest, "idempotencyKey" | "variables" | "userData">,
  more: object,
  secretNames: ReadonlySet<string>,
): Promise<RequestInput> {
  const { open, secrets: variables } = withoutSecrets(request, secretNames);
  const secrets = { ...variables, ...(userData != null && { userData }) };
  return hashedInput(hashOf({ ...open, ...more, ...(userData === null && { userData }) }), secrets, request);
}

/**
 * The input with the hash of the request without its secrets. A salted fingerprint of them follows it if the request
 * has a key, and so may be repeated.
 */
export async function hashedInput(
  hash: string,
  secrets: JsonObject,
  { idempotencyKey }: Pick<RequestTerms, "idempotencyKey">,
): Promise<RequestInput> {
  const isOpen = idempotencyKey === undefined || Object.keys(secrets).length === 0;
  return {
    inputHash: isOpen ? hash : `${hash} ${await fingerprint(secrets)}`,
    isSameInput: (stored) => isHashOfInput(hash, secrets, stored),
  };
}

/**
 * Fingerprints are salted, so two of the same secrets differ. Verifies the secrets against the stored fingerprint
 * instead.
 */
async function isHashOfInput(hash: string, secrets: JsonObject, stored: string | null): Promise<boolean> {
  const [storedHash, storedFingerprint] = (stored ?? "").split(" ");
  if (hash !== storedHash) return false;
  if (storedFingerprint === undefined) return Object.keys(secrets).length === 0;
  return Object.keys(secrets).length > 0 && (await isFingerprintOf(secrets, storedFingerprint));
}

/** The answer to an earlier request with the same key; null if there was none. */
export async function replayOf(
  reader: Reader,
  caller: Caller,
  terms: RequestTerms,
  isSameInput: IsSameInput,
): Promise<SubmitAnswer | null> {
  if (terms.idempotencyKey === undefined || terms.dryRun) return null;
  const operation = await operationByKey(reader, caller.actor, terms.idempotencyKey);
  if (!operation) return null;
  if (await isSameInput(operation.inputHash)) {
    const all = operation.batch === null ? [operation] : await operationsOfBatch(reader, operation.batch);
    const results: NodeAnswer[] = [];
    for (const one of all)
      for (const { nodeName, nodeId, id } of [
        ...(await runsOfOperation(reader, one.id, "WORK")),
        ...(one.options.givenTo ?? []),
      ])
        results.push(acceptedNode(nodeName, nodeId, id));
    return { ...answeredOperations(idsOf(all)), results, refusals: [], replayed: true };
  }
  return refuseRequest([
    {
      code: "IDEMPOTENCY_MISMATCH",
      message: `Idempotency key "${terms.idempotencyKey}" was used for operation ${operation.id} with a different input. Use a new key for a new request.`,
      path: ["input", "idempotencyKey"],
      operationId: operation.id,
    },
  ]);
}
