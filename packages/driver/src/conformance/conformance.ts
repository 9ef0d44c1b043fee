/**
 * The conformance suite: a driver that passes it can be released. It depends on no test runner and works with any:
 *
 *     import { conformance } from "ostler/packages/driver/src/conformance/conformance.ts";
 *     import factory from "../plugins/example.ts";
 *
 *     for (const check of conformance({ factory, settings: { address: "192.0.2.7", password: "secret" } })) {
 *       test(check.title, check.run, check.timeoutSeconds * 1000);
 *     }
 *
 * Without `live` no machine is contacted: the checks read the declarations and the settings schema. With `live` the
 * settings must lead to a machine that can be SWITCHED ON AND OFF at will, preferably a simulated one; run the checks
 * one after the other then (they share the machine). They leave it off. With `refused` (settings that the machine
 * rejects, such as a wrong password) they also check that the error reports this and contains no secret. With `steps`
 * they run more than inspection. With `driveless` (settings of a machine without drives) they try to erase it. With
 * `endpoint` (settings for another address) the driver meets machines that misbehave, which the suite plays itself.
 * `discovery` gives a driver that finds machines the address of one.
 *
 * A check that fails throws an error whose message is a sentence about the driver. Each check creates a driver of its
 * own and closes it.
 */
import { switchPower } from "./calls.ts";
import {
  provesAbort,
  provesArguments,
  provesClose,
  provesContract,
  provesErasure,
  provesNames,
  provesPhases,
  provesSteps,
  provesUndeploy,
} from "./declared.ts";
import { provesAbortedDiscovery, provesDeadAddress, provesDiscovery, provesRefusedDiscovery } from "./discovery.ts";
import { provesAbortAnywhere, provesEndlessAnswer, provesGarbage, provesSessions, provesSilence } from "./hostile.ts";
import {
  provesAbortedRead,
  provesAbortedSignal,
  provesBootDevices,
  provesChosenSteps,
  provesDriveless,
  provesInspection,
  provesMedia,
  provesPower,
  provesRead,
  provesReads,
  provesReboot,
  provesRefusedLogin,
} from "./live.ts";
import {
  provesAcceptance,
  provesController,
  provesDescriptions,
  provesBindings,
  provesDiscoverySettings,
  provesDiscreetRefusal,
  provesRefusal,
  provesSecrets,
  provesShape,
} from "./settings.ts";
import { withSubject } from "./subject.ts";
import type { ConformanceOptions, Subject } from "./subject.ts";

export type { ChosenStep, ConformanceOptions, DiscoveryOptions } from "./subject.ts";

export interface ConformanceCheck {
  /** A sentence about the driver, without its subject, that is true if `run` resolves. */
  readonly title: string;
  /** A timeout for the test runner; a check does not take longer. */
  readonly timeoutSeconds: number;
  run(): Promise<void>;
  /** The parts that the last run could not check, because the driver or its machine does not support them. */
  readonly unsupported: readonly string[];
}

/** All checks, in the order to run them in. */
export function conformance(options: ConformanceOptions): ConformanceCheck[] {
  const check: NewCheck = (title, prove, timeoutSeconds = 30) => {
    const unsupported: string[] = [];
    return { title, timeoutSeconds, unsupported, run: () => withSubject(options, unsupported, prove) };
  };
  return [
    ...declaredChecks(check),
    ...(options.endpoint === undefined ? [] : hostileChecks(check)),
    ...(options.live === true ? liveChecks(check, options) : []),
  ];
}

type NewCheck = (
  title: string,
  prove: (subject: Subject) => void | Promise<void>,
  timeoutSeconds?: number,
) => ConformanceCheck;

function declaredChecks(check: NewCheck): ConformanceCheck[] {
  return [
    check("implements version 2 of the contract", provesContract),
    check("has a name, a version and a description", provesNames),
    check("accepts the example settings, and its own output", provesAcceptance),
    check("refuses settings with unknown fields, and settings that are not an object", provesRefusal),
    check("describes its settings as an object, with a description of every field", provesDescriptions),
    check("declares settings that can become GraphQL types", provesShape),
    check("marks its secrets, all of them strings", provesSecrets),
    check("marks the settings that decide where its secrets are sent", provesBindings),
    check("does not repeat a secret when it refuses settings", provesDiscreetRefusal),
    check("declares steps that fit their interface", provesPhases),
    check("declares steps with valid names, numbers and retries", provesSteps),
    check("has undeploy steps if it has deploy steps", provesUndeploy),
    check("has steps with `abort` only where abort is supported", provesAbort),
    check("declares which automatic step accounts for the disks that it erases", provesErasure),
    check("has only optional arguments, or declares which are required", provesArguments),
    check("identifies the controller of a node by one text without secrets", provesController),
    check("describes the settings of its discovery, and marks their secrets", provesDiscoverySettings),
    check("can be created and closed twice", provesClose),
  ];
}

function hostileChecks(check: NewCheck): ConformanceCheck[] {
  return [
    check("ends by its deadline if the machine accepts connections and stays silent", provesSilence),
    check("fails clearly if the machine answers garbage", provesGarbage),
    check("limits the size of an answer", provesEndlessAnswer),
  ];
}

function liveChecks(check: NewCheck, options: ConformanceOptions): ConformanceCheck[] {
  const seconds = options.liveSeconds ?? 60;
  return [
    check("reads the power", provesRead, seconds),
    check("switches the machine on and off, also if it is in that state already", provesPower, 5 * seconds),
    check("leaves the machine on after a reboot", provesReboot, 4 * seconds),
    check(
      "sets every boot device in every mode, or refuses one that the machine lacks",
      provesBootDevices,
      10 * seconds,
    ),
    check("reads what else it offers, or reports UNSUPPORTED", provesReads, 5 * seconds),
    check("inserts and ejects virtual media, twice each, or reports that the machine cannot", provesMedia, 5 * seconds),
    check("does nothing if the signal fired before the call", provesAbortedSignal, 2 * seconds),
    check("ends promptly when the signal fires", provesAbortedRead, seconds),
    check("ends promptly when the signal fires at any of its requests", provesAbortAnywhere, 2 * seconds),
    check(
      "reads the power many times in a row, without using up the sessions of the machine",
      provesSessions,
      5 * seconds,
    ),
    check("inspects successfully if each step is entered twice", provesInspection, 10 * seconds),
    check("takes no machine without drives for erased", provesDriveless, 5 * seconds),
    ...(options.steps === undefined
      ? []
      : [
          check(
            "runs the given steps successfully if each idempotent one is entered twice",
            provesChosenSteps,
            10 * seconds,
          ),
        ]),
    ...(options.discovery === undefined
      ? []
      : [
          check("discovers the machine as the same node each time", provesDiscovery, 4 * seconds),
          check("reports UNREACHABLE or TIMEOUT for an address at which nothing answers", provesDeadAddress, seconds),
          check("reports a login that is refused during discovery, without a secret", provesRefusedDiscovery, seconds),
          check("discovers nothing if the signal fired before the probe", provesAbortedDiscovery, seconds),
        ]),
    ...(options.refused === undefined
      ? []
      : [check("reports a refused login as AUTHENTICATION, without a secret", provesRefusedLogin, seconds)]),
    check("leaves the machine off", (subject) => switchPower(subject, "OFF", "OFF"), seconds),
  ];
}
