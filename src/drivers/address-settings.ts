/**
 * The settings of a driver that are addresses, as its schemas mark them with `address: true`. egress.ts checks their
 * values before each call; it runs in workers too, which load no schemas.
 */
import type { IpNetworks } from "../runtime/ip-networks.ts";
import type { Driver, Schema } from "./driver.ts";
import { addressProblem, hostOf } from "./egress.ts";
import type { EgressLimits } from "./egress.ts";
import { shapeOf } from "./settings-shape.ts";

export function egressLimits({ settings, discover }: Driver<unknown>, networks: IpNetworks): EgressLimits {
  const discovery = discover ? addressNames(discover.settings) : [];
  return { networks, marked: { settings: addressNames(settings), discovery } };
}

/** The problems of the addresses in settings, by setting. Names are not resolved. */
export function addressProblems(
  schema: Schema<unknown>,
  settings: Readonly<Record<string, unknown>>,
  networks: IpNetworks,
): readonly { readonly path: readonly string[]; readonly message: string }[] {
  return addressNames(schema).flatMap((name) => {
    const host = hostOf(settings[name]);
    const message = host === null ? null : addressProblem(host, networks);
    return message === null ? [] : [{ path: [name], message }];
  });
}

function addressNames(schema: Schema<unknown>): readonly string[] {
  const shape = shapeOf(schema);
  return shape.kind === "object"
    ? shape.fields.filter((field) => field.shape.schema["address"] === true).map(({ name }) => name)
    : [];
}
