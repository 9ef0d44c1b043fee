/** What a check of the conformance suite works on, and what its caller gives. */
import type { Driver, DriverFactory, Json } from "../driver.ts";
import { hold } from "./proof.ts";

/** A name of a call is a label of metrics. */
const CALL_NAME_LENGTH_MAX = 100;

export interface ConformanceOptions {
  /** The plugin's default export. */
  readonly factory: DriverFactory<unknown>;
  /** Settings that the schema accepts; every secret field should be filled. With `live`: those of the machine. */
  readonly settings: Readonly<Record<string, Json>>;
  /** Whether there is a machine behind the settings that may be switched on and off. */
  readonly live?: boolean;
  /** With `live`: settings that the machine refuses, with secrets of 8 characters or more. */
  readonly refused?: Readonly<Record<string, Json>>;
  /** With `live`: how long switching the machine or one inspection step may take. 60 where nothing is said. */
  readonly liveSeconds?: number;
  /** With `live`, for steps that wait for the machine to call back: makes it do so, and gives the body of the call. */
  readonly callBack?: (wait: {
    readonly step: string;
    readonly callbackPath: string;
    readonly memo: Json;
  }) => Promise<Json>;
  /** With `live`: further steps that may be run on the machine, in this order; without it only inspection is. */
  readonly steps?: readonly ChosenStep[];
  /** For a driver that discovers; without it the settings of its discovery are looked at, and nothing is probed. */
  readonly discovery?: DiscoveryOptions;
}

export interface ChosenStep {
  readonly interface: "inspect" | "clean" | "deploy";
  /** Its name. */
  readonly step: string;
  readonly args?: Readonly<Record<string, Json>>;
}

export interface DiscoveryOptions {
  /** Settings that `discover.settings` accepts; every secret field should be filled. With `live`: those that the machine takes. */
  readonly settings: Readonly<Record<string, Json>>;
  /** With `live`: where the machine of `ConformanceOptions.settings` answers. */
  readonly address: string;
  /** With `live`: settings that the machine at that address refuses, with secrets of 8 characters or more. */
  readonly refused?: Readonly<Record<string, Json>>;
  /** With `live`: an address at which nothing answers. */
  readonly dead?: string;
}

/** What a check works on. */
export interface Subject {
  readonly options: ConformanceOptions;
  readonly driver: Driver<unknown>;
  /** Lines that the driver logged. */
  readonly logged: string[];
  /** Names of calls to the machine that the driver had timed. */
  readonly named: string[];
}

/** Proves something of a driver made for it, and that what it called meanwhile bears names fit for metrics. */
export async function withSubject(
  options: ConformanceOptions,
  prove: (subject: Subject) => void | Promise<void>,
): Promise<void> {
  const logged: string[] = [];
  const named: string[] = [];
  const driver = await options.factory({ log: (message) => logged.push(message) });
  try {
    await prove({ options, driver, logged, named });
    for (const name of new Set(named)) holdCallName(name, options);
  } finally {
    await driver.close?.();
  }
}

/** A name of a call is one of few: none of the settings' texts of some length is in it, secrets among them. */
function holdCallName(name: string, { settings, refused = {}, discovery }: ConformanceOptions): void {
  hold(
    name.trim() !== "" && name.length <= CALL_NAME_LENGTH_MAX,
    `A call to the machine is timed as ${JSON.stringify(name)}; name it by 1 to ${CALL_NAME_LENGTH_MAX} characters.`,
  );
  const given = [settings, refused, discovery?.settings ?? {}, discovery?.refused ?? {}].flatMap((each) =>
    Object.values(each),
  );
  const told = [...given, discovery?.address].find(
    (value) => typeof value === "string" && value.length >= 8 && name.includes(value),
  );
  hold(
    told === undefined,
    `The name of a call to the machine, ${JSON.stringify(name)}, holds a setting; it must be the same for every machine, and no secret.`,
  );
}
