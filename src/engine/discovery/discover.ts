/**
 * Discovery: a request for addresses becomes an operation with one row for each address, stored before the answer, or
 * is refused with all of its flaws. The secrets of its login are stored apart and deleted when it ends. prober.ts
 * probes the addresses; interrupt-discovery.ts aborts, stops and ends a discovery.
 */
import { randomUUID } from "node:crypto";
import { flawIf, invalidInput } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import type { Registry } from "../../drivers/registry.ts";
import { insertDiscoveries } from "../../store/operations/discoveries.ts";
import { insertOperations } from "../../store/operations/operations.ts";
import type { NewOperation } from "../../store/operations/operations.ts";
import type { JsonObject } from "../../store/records.ts";
import { putSecrets, SECRETS } from "../../store/secrets/secrets.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import { hashedInput, replayOf } from "../admission/idempotency.ts";
import { termsFlaws } from "../admission/request-terms.ts";
import type { RequestTerms } from "../admission/request-terms.ts";
import type { EngineContext } from "../context.ts";
import { labelFlaws, labelRecord } from "../input/name-rules.ts";
import type { GivenLabels } from "../input/name-rules.ts";
import { findCluster, unknownCluster } from "../input/node-selector.ts";
import type { ClusterRef } from "../input/node-selector.ts";
import { clusterLockRefusals } from "../inventory/cluster-lock.ts";
import { issueFlaws } from "../inventory/node-settings.ts";
import type { CheckedSettings } from "../inventory/node-settings.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import type { Caller } from "../transaction.ts";
import { parseAddresses } from "./addresses.ts";
import { requireNone } from "../input/edits.ts";

export interface DiscoverRequest extends Pick<RequestTerms, "idempotencyKey" | "reason" | "dryRun"> {
  /** Host names, IP addresses and CIDR ranges. */
  readonly addresses: readonly string[];
  readonly driver: string;
  readonly settings?: unknown;
  readonly cluster?: ClusterRef | undefined;
  readonly labels?: GivenLabels | undefined;
  /** Prefix of the address in the name of a node, if the machine reports no name. */
  readonly namePrefix?: string | undefined;
}

export interface DiscoverAnswer {
  /** Null when refused or only planned. */
  readonly operationId: string | null;
  /** The addresses that are, or in a dry run would be, probed. */
  readonly addresses: readonly string[];
  readonly refusals: readonly Refusal[];
  readonly replayed: boolean;
}

const PREFIX = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

export async function discoverNodes(
  context: EngineContext,
  caller: Caller,
  request: DiscoverRequest,
): Promise<DiscoverAnswer> {
  const { addresses, refusals: addressFlaws } = parseAddresses(
    request.addresses,
    ["input", "addresses"],
    context.registry.networks,
  );
  const login = await checkLogin(context.registry, request);
  const flaws = [
    ...termsFlaws(request),
    ...addressFlaws,
    ...login.refusals,
    ...prefixFlaws(request.namePrefix),
    ...labelFlaws(request.labels, ["input"]),
  ];
  const input = await hashedInput(hashOfRequest(request, login), login.secrets, request);
  return context.transact(async (transaction): Promise<DiscoverAnswer> => {
    const { tx } = transaction;
    const replay = await replayOf(tx, caller, request, input.isSameInput);
    if (replay) return { ...replay, addresses: replay.operationId === null ? [] : addresses };
    const clusterId = request.cluster ? await findCluster(tx, request.cluster) : null;
    const unknown =
      request.cluster && clusterId === null ? unknownCluster(request.cluster, ["input", "cluster"]).refusals : [];
    const locked = clusterId === null ? [] : await clusterLockRefusals(tx, [clusterId], () => ["input", "cluster"]);
    requireNone([...flaws, ...unknown, ...locked]);
    if (request.dryRun) return { operationId: null, addresses, refusals: [], replayed: false };
    const { settings, secrets } = login;
    const row = operationRow(caller, request, { settings, addresses });
    await insertOperations(tx, [{ ...row, clusterId, inputHash: input.inputHash }]);
    await insertDiscoveries(tx, row.id, addresses);
    if (Object.keys(secrets).length > 0)
      await putSecrets(tx, context.keyring, SECRETS.ofDiscoveries, [[row.id, secrets]]);
    transaction.audit(caller, { operationId: row.id, targets: addresses });
    return { operationId: row.id, addresses, refusals: [], replayed: false };
  });
}

/** Hash of the request with the names of its secrets only. */
function hashOfRequest(request: DiscoverRequest, { settings, secrets }: CheckedSettings): string {
  const labels = request.labels && labelRecord(request.labels);
  return hashOf({ ...request, labels, kind: "DISCOVER", settings, secrets: Object.keys(secrets).toSorted() });
}

/** The operation of a discovery, apart from its cluster and its input. */
function operationRow(
  { project, actor }: Caller,
  request: DiscoverRequest,
  { settings, addresses }: { readonly settings: JsonObject; readonly addresses: readonly string[] },
): Omit<NewOperation, "clusterId" | "inputHash"> & { readonly id: string } {
  const { driver, labels, namePrefix, reason = null, idempotencyKey = null } = request;
  return {
    id: randomUUID(),
    kind: "DISCOVER",
    state: "QUEUED",
    project,
    actor,
    reason,
    idempotencyKey,
    options: {
      discovery: {
        driver,
        settings,
        ...(labels && { labels: labelRecord(labels) }),
        ...(namePrefix !== undefined && { namePrefix }),
      },
    },
    onFailure: "LEAVE",
    variables: {},
    totalCount: addresses.length,
  };
}

/** Checks the driver and the settings that it logs in with. `path`: of the driver. */
export async function checkLogin(
  registry: Registry,
  { driver: name, settings }: Pick<DiscoverRequest, "driver" | "settings">,
  path: readonly string[] = ["input", "driver"],
): Promise<CheckedSettings> {
  const refused = (refusals: readonly Refusal[]) => ({ settings: {}, secrets: {}, refusals });
  const driver = registry.get(name);
  if (!driver) {
    const loaded = registry.drivers.map((one) => one.name).join(", ") || "none";
    const message = `Driver ${JSON.stringify(name)} is not loaded (loaded: ${loaded}). Add its plugin to OSTLER_PLUGINS.`;
    return refused([invalidInput(message, path)]);
  }
  const checked = await registry.checkDiscovery(driver, settings ?? {});
  if (!checked) {
    const able = registry.drivers.flatMap((one) => (one.discover ? [one.name] : [])).join(", ") || "none";
    const message = `Driver "${name}" cannot discover nodes (drivers that can: ${able}). Register its nodes with registerNodes.`;
    return refused([{ code: "UNSUPPORTED_BY_DRIVER", message, path }]);
  }
  const [what, at] = [`Settings for a discovery with driver ${name}`, [...path, name]];
  if (!checked.ok) return refused(issueFlaws(what, checked.issues, at));
  const { secrets } = checked;
  const refusals = sizeFlaws(what, { ...checked.settings, ...secrets }, at);
  return { settings: checked.settings, secrets, refusals };
}

function prefixFlaws(prefix: string | undefined): Refusal[] {
  const message = `Invalid namePrefix ${JSON.stringify(prefix)}: use 1–100 letters, digits, dots, dashes or underscores; begin with a letter or digit.`;
  return flawIf(prefix !== undefined && !PREFIX.test(prefix), message, ["input", "namePrefix"]);
}
