/**
 * The conformance suite: what a driver must hold to be fit to ship. It knows no test runner, so it runs under any:
 *
 *     import { conformance } from "ostler/src/drivers/conformance/conformance.ts";
 *     import factory from "../plugins/example.ts";
 *
 *     for (const check of conformance({ factory, settings: { address: "192.0.2.7", password: "secret" } })) {
 *       test(check.title, check.run, check.timeoutSeconds * 1000);
 *     }
 *
 * Without `live` nothing is contacted: the checks read the declarations and the settings schema. With `live` the
 * settings must lead to a machine that may be SWITCHED ON AND OFF at will, best a simulated one; the checks then run
 * one after the other (they share the machine) and leave it off. With `refused` (settings that the same machine turns
 * away, a wrong password say) they also prove that an error says so and gives no secret away. With `steps` they run more
 * than inspection. With `discovery` a driver that finds machines is shown where one is.
 *
 * A check that fails throws an Error whose message is a sentence about the driver. Each makes a driver of its own
 * and closes it.
 */
import { switchPower } from "./calls.ts";
import {
  provesAbort,
  provesArguments,
  provesClose,
  provesContract,
  provesNames,
  provesPhases,
  provesSteps,
  provesUndeploy,
} from "./declared.ts";
import { provesAbortedDiscovery, provesDeadAddress, provesDiscovery, provesRefusedDiscovery } from "./discovery.ts";
import {
  provesAbortedRead,
  provesAbortedSignal,
  provesBootDevices,
  provesChosenSteps,
  provesInspection,
  provesPower,
  provesRead,
  provesReboot,
  provesRefusedLogin,
} from "./live.ts";
import {
  provesAcceptance,
  provesController,
  provesDescriptions,
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
  /** A sentence about the driver that holds when `run` resolves. */
  readonly title: string;
  /** A bound for the runner: the check ends by itself before. */
  readonly timeoutSeconds: number;
  run(): Promise<void>;
}

/** All checks, in the order to run them in. */
export function conformance(options: ConformanceOptions): ConformanceCheck[] {
  const seconds = options.liveSeconds ?? 60;
  const check = (
    title: string,
    prove: (subject: Subject) => void | Promise<void>,
    timeoutSeconds = 30,
  ): ConformanceCheck => ({
    title,
    timeoutSeconds,
    run: () => withSubject(options, prove),
  });
  const declared = [
    check("implements version 1 of the contract", provesContract),
    check("has a name, a version and a description", provesNames),
    check("accepts the example settings, and its own output again", provesAcceptance),
    check("refuses unknown fields and what is not an object", provesRefusal),
    check("describes its settings as an object, and every field", provesDescriptions),
    check("declares settings that clients can be given types of", provesShape),
    check("marks its secrets, and they are strings", provesSecrets),
    check("gives no secret away when it refuses settings", provesDiscreetRefusal),
    check("declares steps that fit their interface", provesPhases),
    check("declares steps with sound names, numbers and retries", provesSteps),
    check("can undo what it can deploy", provesUndeploy),
    check("has steps with `abort` only where abort is supported", provesAbort),
    check("has arguments that may be left out, or says why not", provesArguments),
    check("tells the controller of a node by a text without secrets, always the same", provesController),
    check("describes the settings of its discovery, and marks their secrets", provesDiscoverySettings),
    check("can be made and closed twice", provesClose),
  ];
  if (options.live !== true) return declared;
  return [
    ...declared,
    check("reads the power", provesRead, seconds),
    check("switches on and off, and each twice to the same end", provesPower, 5 * seconds),
    check("reboots to on", provesReboot, 4 * seconds),
    check("sets every boot device, where it can set one", provesBootDevices, 5 * seconds),
    check("does nothing under a signal that has fired", provesAbortedSignal, 2 * seconds),
    check("ends promptly when the signal fires", provesAbortedRead, seconds),
    check("inspects to the same end when each step is entered twice", provesInspection, 10 * seconds),
    ...(options.steps === undefined
      ? []
      : [
          check(
            "takes the steps given to the same end when each that may be is entered twice",
            provesChosenSteps,
            10 * seconds,
          ),
        ]),
    ...(options.discovery === undefined
      ? []
      : [
          check("discovers the machine, to the same node each time", provesDiscovery, 4 * seconds),
          check("discovers nothing where nothing answers, and says so", provesDeadAddress, seconds),
          check(
            "discovers nothing where the login is refused, and gives no secret away",
            provesRefusedDiscovery,
            seconds,
          ),
          check("discovers nothing under a signal that has fired", provesAbortedDiscovery, seconds),
        ]),
    ...(options.refused === undefined
      ? []
      : [check("tells a refused login from other failures, and no secret", provesRefusedLogin, seconds)]),
    check("leaves the machine off", (subject) => switchPower(subject, "OFF", "OFF"), seconds),
  ];
}
