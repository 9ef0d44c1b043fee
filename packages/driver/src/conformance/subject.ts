/** The options of the conformance suite, and the subject of its checks. */
import type { Driver, DriverFactory, Json } from "../../../../src/drivers/driver.ts";
import { ensure } from "./proof.ts";

/** The name of a call is a label of metrics. */
const CALL_NAME_LENGTH_MAX = 100;

export interface ConformanceOptions {
  /** The plugin's default export. */
  readonly factory: DriverFactory<unknown>;
  /** Settings that the schema accepts; fill every secret field. With `live`: the settings of that machine. */
  readonly settings: Readonly<Record<string, Json>>;
  /** True if the settings lead to a machine that can be switched on and off. */
  readonly live?: boolean;
  /** With `live`: settings that the machine refuses, with secrets of 8 characters or more. */
  readonly refused?: Readonly<Record<string, Json>>;
  /** With `live`: limit for one power change or one inspection step. Default 60. */
  readonly liveSeconds?: number;
  /** With `live`: settings of a machine without drives, which no step may take for erased. */
  readonly driveless?: Readonly<Record<string, Json>>;
  /** With `live`, for steps that wait for a callback: makes the machine send it, and returns its body. */
  readonly sendCallback?: (wait: {
    readonly step: string;
    readonly callbackPath: string;
    readonly memo: Json;
  }) => Promise<Json>;
  /** With `live`: further steps to run on the machine, in this order. Absent: only inspection steps run. */
  readonly steps?: readonly ChosenStep[];
  /** Settings for a machine at another address. Absent: the driver is not tried on machines that misbehave. */
  readonly endpoint?: (endpoint: { readonly host: string; readonly port: number }) => Readonly<Record<string, Json>>;
  /** For a driver with discovery. Absent: its discovery settings are checked, and no address is probed. */
  readonly discovery?: DiscoveryOptions;
}

export interface ChosenStep {
  readonly interface: "inspect" | "clean" | "deploy";
  /** Name of the step. */
  readonly step: string;
  readonly args?: Readonly<Record<string, Json>>;
}

export interface DiscoveryOptions {
  /**
   * Settings that `discover.settings` accepts; fill every secret field. With `live`: settings that the machine accepts.
   */
  readonly settings: Readonly<Record<string, Json>>;
  /** With `live`: the address of the machine of `ConformanceOptions.settings`. */
  readonly address: string;
  /** With `live`: settings that the machine at that address refuses, with secrets of 8 characters or more. */
  readonly refused?: Readonly<Record<string, Json>>;
  /** With `live`: an address at which nothing answers. */
  readonly dead?: string;
}

/** The driver under test. */
export interface Subject {
  readonly options: ConformanceOptions;
  readonly driver: Driver<unknown>;
  /** Lines that the driver logged. */
  readonly logged: string[];
  /** Names of the calls to the machine that the driver passed to `timed`. */
  readonly callNames: string[];
  /** Parts of the check that the driver or its machine does not support, with the reasons. */
  readonly unsupported: string[];
}

/** Runs a check on a new driver, then checks that its calls to the machine have names that metrics can use. */
export async function withSubject(
  options: ConformanceOptions,
  unsupported: string[],
  prove: (subject: Subject) => void | Promise<void>,
): Promise<void> {
  unsupported.length = 0;
  const logged: string[] = [];
  const callNames: string[] = [];
  const driver = await options.factory({ log: (message) => logged.push(message) });
  try {
    await prove({ options, driver, logged, callNames, unsupported });
    for (const name of new Set(callNames)) ensureCallName(name, options);
  } finally {
    await driver.close?.();
  }
}

/** The name of a call must not depend on the machine, so it must not contain a setting of 8 or more characters. */
function ensureCallName(name: string, { settings, refused = {}, discovery }: ConformanceOptions): void {
  ensure(
    name.trim() !== "" && name.length <= CALL_NAME_LENGTH_MAX,
    `The name of a call to the machine, ${JSON.stringify(name)}, is invalid: use 1 to ${CALL_NAME_LENGTH_MAX} characters.`,
  );
  const given = [settings, refused, discovery?.settings ?? {}, discovery?.refused ?? {}].flatMap((each) =>
    Object.values(each),
  );
  const leaked = [...given, discovery?.address].find(
    (value) => typeof value === "string" && value.length >= 8 && name.includes(value),
  );
  ensure(
    leaked === undefined,
    `The name of a call to the machine, ${JSON.stringify(name)}, contains a setting; use the same name for every machine, without secrets.`,
  );
}
