/** The check that no other node has the MAC addresses that a request gives to a node. */
import { invalidInput, nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { macOf } from "../../runtime/mac-address.ts";
import { macOwners } from "../../store/nodes/node-macs.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { sortedMacs } from "../input/mac-addresses.ts";

/** MACs that a request gives to a node. */
interface GivenMacs {
  /** Null: the node is new. */
  readonly nodeId: string | null;
  readonly nodeName: string;
  readonly macs: readonly string[] | null | undefined;
  /** Path of the list. */
  readonly path: readonly string[];
}

/** A refusal for each MAC that another node has, or that the request gives to two nodes. */
export async function takenMacs(reader: Reader, given: readonly GivenMacs[]): Promise<Refusal[]> {
  const wanted = sortedMacs(given.flatMap(({ macs }) => macs ?? []));
  const owners = new Map((await macOwners(reader, wanted)).map((owner) => [owner.mac, owner]));
  const first = new Map<string, string>();
  return given.flatMap(({ nodeId, nodeName, macs, path }) =>
    (macs ?? []).flatMap((text, index): Refusal[] => {
      const mac = macOf(text);
      if (mac === null) return [];
      const at = [...path, String(index)];
      const owner = owners.get(mac);
      const other = first.get(mac);
      if (other === undefined) first.set(mac, nodeName);
      const taken = `Node ${nodeName} cannot have the MAC address ${mac}, because node ${owner?.nodeName} has it. Remove it there with updateNodes, or leave it out.`;
      if (owner && owner.nodeId !== nodeId) return [nodeRefusal("MAC_TAKEN", owner.nodeId, taken, { path: at })];
      // The same node: the list itself is at fault, and refused for that.
      if (other === undefined || other === nodeName) return [];
      const message = `The MAC address ${mac} is given to node ${other} and to node ${nodeName}. Give it to one of them.`;
      return [invalidInput(message, at)];
    }),
  );
}
