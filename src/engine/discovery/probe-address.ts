/** Probes one address: calls the driver within a time limit and checks its answer. Writes nothing. */
import { Deadline } from "../../drivers/deadline.ts";
import type { DiscoverInterface, MachineCall } from "../../drivers/driver.ts";
import type { Dispatched } from "../../drivers/isolation/dispatch.ts";
import { HeartbeatLostError } from "../../drivers/isolation/protocol.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import type { Registry } from "../../drivers/registry.ts";
import { isRecord, isStorable } from "../../runtime/json-values.ts";
import { sentence } from "../../runtime/text.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Failure } from "../../store/records.ts";
import type { EngineParts } from "../context.ts";
import { CallTimeoutError, withDeadline } from "../execution/call/call-deadline.ts";
import { callName } from "../execution/call/driver-call.ts";
import { faultOf, quoted } from "../execution/call/driver-result.ts";
import type { Fault } from "../execution/call/driver-result.ts";
import { newFailure } from "../input/failures.ts";
import { reportedIdentities } from "../input/machine-identities.ts";
import type { Redactor } from "../input/secret-redactor.ts";
import { prepareSettings } from "../inventory/node-settings.ts";
import type { EnrolledNode } from "../inventory/register-nodes.ts";

export type DiscoveryDriver = AnyDriver & { readonly discover: DiscoverInterface<unknown> };

/** How addresses are probed. */
export interface ProbeTerms {
  readonly driverName: string;
  /** Or a clause that says why the driver cannot be used any more. */
  readonly driver: DiscoveryDriver | string;
  /** Secrets included. */
  readonly settings: Readonly<Record<string, never>>;
  readonly redactor: Redactor;
  /** Of the address in the name of a node, if the machine reports no name. */
  readonly namePrefix: string;
  /** For the log. */
  readonly operationId?: string;
}

/** A discovery that this replica works on. */
export interface OpenDiscovery extends ProbeTerms {
  readonly operation: OperationRow;
}

export interface ProbeParts extends Pick<EngineParts, "registry" | "log" | "observer"> {
  /** How long one probe may take, in ms, without the time that it waits for a free call. */
  readonly probeMs: number;
}

/** The result of a probe: the node to register, or the reason why there is none. */
export type Probed = Found | { readonly failure: Failure };
export type Found = Pick<EnrolledNode, "name" | "settings" | "secrets" | "controller" | "identities">;

export const NAME_LENGTH_MAX = 253;

/**
 * Ends within the time limit, and at once when it is canceled, whatever the driver does. Returns a result for each
 * machine behind the address, and at least one.
 */
export async function probeAddress(
  parts: ProbeParts,
  terms: ProbeTerms,
  address: string,
  cancel: AbortSignal,
): Promise<readonly Probed[]> {
  const { driver, redactor } = terms;
  const failed = (fault: Fault): readonly Probed[] => [{ failure: failureAt(address, fault) }];
  if (typeof driver === "string") return failed({ code: "UNSUPPORTED_BY_DRIVER", reason: driver, retryable: false });
  try {
    const { settings } = terms;
    const found = await probeCall(parts, terms, { address, cancel }, (call) =>
      driver.discover.probe({ ...call, address, settings }),
    );
    const all: readonly unknown[] = Array.isArray(found) && found.length > 0 ? found : [found];
    return await Promise.all(all.map((one) => checkAnswer(parts.registry, terms, address, one)));
  } catch (error) {
    if (error instanceof HeartbeatLostError) throw error;
    const late = `the probe did not end within ${parts.probeMs / 1000} s; check the machine and try again`;
    const isLate = error instanceof CallTimeoutError;
    return failed(isLate ? { code: "TIMEOUT", reason: late, retryable: true } : faultOf(error, redactor));
  }
}

/** Makes a call to an address, within the time limit of a probe. */
export function probeCall<Result>(
  { log, observer, probeMs }: Omit<ProbeParts, "registry">,
  { operationId, driverName: driver, redactor }: ProbeTerms,
  { address, cancel }: { readonly address: string; readonly cancel: AbortSignal },
  make: (call: Omit<MachineCall<never>, "settings"> & Dispatched) => Promise<Result>,
): Promise<Result> {
  const deadline = new Deadline(probeMs);
  const about = { ...(operationId !== undefined && { operationId }), address, driver };
  return withDeadline(deadline, cancel, async (signal) =>
    make({
      signal,
      deadline,
      log: (message) => log.debug(about, redactor.text(message)),
      timed: async (name: unknown, work) =>
        observer.call({ driver, name: callName(name, redactor), node: address }, work),
      dispatch: { lane: "PROBE" },
    }),
  );
}

/** Checks the answer of a driver, which is not trusted. */
async function checkAnswer(
  registry: Registry,
  { driverName: driver, namePrefix, redactor }: ProbeTerms,
  address: string,
  found: unknown,
): Promise<Probed> {
  const invalid = (what: string): Probed => ({
    failure: failureAt(
      address,
      faultOf(new Error(`driver "${driver}" answers ${what}${quoted(found, redactor)}`), redactor),
    ),
  });
  if (!isRecord(found) || !isRecord(found["settings"])) return invalid("a probe without settings");
  const { name: given, settings: own } = found;
  const reported = typeof given === "string" ? nameFrom(redactor.text(given)) : "";
  const name = reported === "" ? nameFrom(`${namePrefix}${address}`) : reported;
  const node = { name, driver, settings: own };
  const { settings, secrets, controller, controllers, refusals } = await prepareSettings(registry, node, []);
  if (refusals.length > 0)
    return invalid(`settings that it rejects itself: ${refusals.map(({ message }) => message).join(" ")}`);
  const identities = [...controllers, ...reportedIdentities(found)];
  if (!isStorable([settings, secrets, controller, identities.map(({ text }) => text)]))
    return invalid("characters that cannot be stored");
  return { name, settings, secrets, controller, identities };
}

function failureAt(address: string, { code, reason, retryable, failureKind }: Fault): Failure {
  const message = reason.includes(address) ? sentence(reason) : `${address}: ${sentence(reason)}`;
  return newFailure({ code, message, cause: reason, retryable, ...(failureKind && { kind: failureKind }) });
}

/** A text as a valid name of a node: invalid characters become dashes. Empty if nothing is left. */
function nameFrom(text: string): string {
  const cut = text.replaceAll(/[^A-Za-z0-9._-]+/g, "-").slice(0, NAME_LENGTH_MAX);
  return cut.replace(/^[^A-Za-z0-9]+/, "").replace(/[^A-Za-z0-9]+$/, "");
}
