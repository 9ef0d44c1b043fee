/**
 * Probes addresses on request with one or several drivers, and reports what answers: nothing is registered or stored.
 * The addresses are probed at the same time, the drivers of one address one after the other, because one BMC answers
 * all of them.
 */
import { Deadline, leftUntil, whenOver } from "../../drivers/deadline.ts";
import type { Ability } from "../../drivers/driver.ts";
import { validate } from "../../drivers/issues.ts";
import type { AnyDriver } from "../../drivers/interfaces.ts";
import { flawIf, invalidInput } from "../../errors.ts";
import type { FailureKind, Refusal } from "../../errors.ts";
import { mapConcurrently } from "../../runtime/concurrency.ts";
import { sentence } from "../../runtime/text.ts";
import type { Database } from "../../store/postgres/database.ts";
import type { JsonObject } from "../../store/records.ts";
import { CallTimeoutError } from "../execution/call/call-deadline.ts";
import { faultOf } from "../execution/call/driver-result.ts";
import { createRedactor, withSecrets } from "../input/secret-redactor.ts";
import { parseAddresses } from "./addresses.ts";
import { checkLogin } from "./discover.ts";
import { knownNode } from "./known-node.ts";
import { probeAddress, probeCall } from "./probe-address.ts";
import type { Found, ProbeParts, ProbeTerms } from "./probe-address.ts";
import { probedAbilities } from "./probed-abilities.ts";
import { canDiscover } from "./prober.ts";

export interface ProbeRequest {
  readonly addresses: readonly string[];
  /** With the settings of their discovery. Undefined: all loaded drivers that can discover, with their defaults. */
  readonly drivers?: readonly { readonly driver: string; readonly settings: unknown }[] | undefined;
}

/** The result of one driver at one address. */
export interface ProbeAnswer {
  readonly address: string;
  readonly driver: AnyDriver;
  /** Null: no machine of the driver answers, or it refuses the login. */
  readonly found: FoundMachine | null;
  readonly refusal: Refusal | null;
  /** Cause of the failure as the driver classified it. */
  readonly kind: FailureKind | null;
}

export interface FoundMachine {
  /** The name that a discovery would give a node, if it is free. */
  readonly name: string;
  /** Of a node at the address, without secrets. */
  readonly settings: JsonObject;
  readonly controller: string | null;
  /** The node that the machine is registered as. */
  readonly nodeId: string | null;
  /** Null: they could not be read. */
  readonly abilities: readonly Ability[] | null;
  readonly abilitiesRefusal: Refusal | null;
}

export interface ProbeAnswers {
  readonly answers: readonly ProbeAnswer[];
  /** Reasons why nothing was probed. */
  readonly refusals: readonly Refusal[];
}

/** Limits of a request: addresses, drivers with settings, and the time for all calls and for one driver. */
export const PROBED_ADDRESSES_MAX = 16;
export const PROBING_DRIVERS_MAX = 8;
const REQUEST_MS = 30_000;
const DRIVER_MS = 10_000;

/** A driver to probe with. */
interface OpenLogin {
  readonly driver: AnyDriver;
  readonly terms: ProbeTerms;
}

/** A driver to probe with, or the reason why it is not tried. */
type Login = OpenLogin | { readonly driver: AnyDriver; readonly refusal: Refusal };

type Parts = Omit<ProbeParts, "probeMs"> & {
  readonly database: Database;
  /** Limit of one driver at one address, in ms. */
  readonly probeMs?: number | undefined;
};

export class NodeProbes {
  readonly #parts: Parts;
  readonly #closing = new AbortController();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async probe(request: ProbeRequest): Promise<ProbeAnswers> {
    const { registry } = this.#parts;
    const { addresses, refusals } = parseAddresses(request.addresses, ["input", "addresses"], registry.networks);
    const { logins, refusals: flaws } = await this.#logins(request);
    const message = `The request has ${addresses.length} addresses, and at most ${PROBED_ADDRESSES_MAX} can be probed at once. Send several requests, or use discoverNodes.`;
    const tooMany = addresses.length > PROBED_ADDRESSES_MAX;
    const all = [...refusals, ...flawIf(tooMany, message, ["input", "addresses"]), ...flaws];
    if (all.length > 0) return { answers: [], refusals: all };
    const until = new Deadline(REQUEST_MS);
    const { probeMs = DRIVER_MS } = this.#parts;
    const answers = await mapConcurrently(PROBED_ADDRESSES_MAX, addresses, async (address) => {
      const found: ProbeAnswer[] = [];
      for (const [index, login] of logins.entries())
        found.push(
          ...(await this.#probeOne(address, login, Math.min(probeMs, leftUntil(until) / (logins.length - index)))),
        );
      return found;
    });
    return { answers: answers.flat(), refusals: [] };
  }

  /** Cancels the running probes. */
  close(): void {
    this.#closing.abort(new CallTimeoutError("The replica is shutting down."));
  }

  async #logins({ drivers }: ProbeRequest): Promise<{ logins: readonly Login[]; refusals: readonly Refusal[] }> {
    const { registry } = this.#parts;
    const isNamed = drivers !== undefined;
    const named = drivers ?? registry.drivers.filter(canDiscover).map(({ name }) => ({ driver: name, settings: {} }));
    if (named.length === 0 || named.length > PROBING_DRIVERS_MAX) {
      const message = `The request has ${named.length} drivers. Name 1 to ${PROBING_DRIVERS_MAX} that can discover nodes.`;
      return { logins: [], refusals: [invalidInput(message, ["input", "drivers"])] };
    }
    const logins: Login[] = [];
    const refusals: Refusal[] = [];
    for (const [index, one] of named.entries()) {
      const path = isNamed ? ["input", "drivers", String(index)] : ["input", "drivers"];
      const login = await checkLogin(registry, one, path);
      const driver = registry.get(one.driver);
      const [flaw] = login.refusals;
      if (isNamed) refusals.push(...login.refusals);
      if (!driver || !canDiscover(driver)) continue;
      if (flaw) {
        const message = `Driver ${driver.name} was not tried, because it needs settings. Name it in \`drivers\` with them.`;
        logins.push({ driver, refusal: { ...flaw, message } });
        continue;
      }
      const { settings, secrets } = login;
      const redactor = createRedactor(Object.values(secrets));
      const terms = { driver, driverName: driver.name, redactor, namePrefix: "" };
      const checked = await validate(driver.discover.settings, { ...settings, ...secrets });
      if (checked.issues) throw new Error(`Driver "${driver.name}" refuses the settings that it has accepted.`);
      logins.push({ driver, terms: { ...terms, settings: checked.value as ProbeTerms["settings"] } });
    }
    return { logins, refusals };
  }

  async #probeOne(address: string, login: Login, milliseconds: number): Promise<readonly ProbeAnswer[]> {
    const { driver } = login;
    const failed = (
      { code, message }: Pick<Refusal, "code" | "message">,
      kind: FailureKind | null = null,
    ): ProbeAnswer => ({
      address,
      driver,
      found: null,
      refusal: { code, message },
      kind,
    });
    if ("refusal" in login) return [failed(login.refusal)];
    // The time of a probe is on hold while it waits for a call; that of the request is not.
    const over = new AbortController();
    const stopClock = whenOver(new Deadline(milliseconds), () => over.abort(new CallTimeoutError("its time is over")));
    const cancel = AbortSignal.any([over.signal, this.#closing.signal]);
    const parts = { ...this.#parts, probeMs: milliseconds };
    try {
      const answers: ProbeAnswer[] = [];
      for (const probed of await probeAddress(parts, login.terms, address, cancel)) {
        if ("failure" in probed) answers.push(failed(probed.failure, probed.failure.kind));
        else {
          const found = await foundAt(parts, login, { address, cancel }, probed);
          answers.push({ address, driver, found, refusal: null, kind: null });
        }
      }
      return answers;
    } finally {
      stopClock();
    }
  }
}

/** A machine that answers, with its abilities. */
async function foundAt(
  parts: ProbeParts & Pick<Parts, "database">,
  { driver, terms }: OpenLogin,
  at: { readonly address: string; readonly cancel: AbortSignal },
  probed: Found,
): Promise<FoundMachine> {
  const { name, controller } = probed;
  const settings = probed.settings[driver.name] ?? {};
  const secrets = probed.secrets[driver.name] ?? {};
  const nodeId = await knownNode(parts.database.reader, driver.name, probed);
  const machine = { name, controller, settings, nodeId };
  const redactor = withSecrets(terms.redactor, Object.values(secrets));
  try {
    const checked = driver.abilities && (await validate(driver.settings, { ...settings, ...secrets }));
    if (checked?.issues) throw new Error("The driver does not accept the settings that it found.");
    const ask = () =>
      probeCall(parts, { ...terms, redactor }, at, async (call) =>
        driver.abilities?.({ ...call, settings: checked?.value }),
      );
    const reported = checked ? await ask() : [];
    return { ...machine, abilities: probedAbilities(driver, reported, redactor), abilitiesRefusal: null };
  } catch (error) {
    const late = { code: "TIMEOUT", reason: "the abilities were not reported in time" } as const;
    const { code, reason } = error instanceof CallTimeoutError ? late : faultOf(error, redactor);
    return { ...machine, abilities: null, abilitiesRefusal: { code, message: `${at.address}: ${sentence(reason)}` } };
  }
}
