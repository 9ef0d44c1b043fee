/** The parts that the functions of agents share, and the checks of an agent's credentials and machine. */
import { isMeaningfulMac } from "../../lifecycle/identity.ts";
import { macOf } from "../../runtime/mac-address.ts";
import { macOwners } from "../../store/nodes/node-macs.ts";
import type { MacOwner } from "../../store/nodes/node-macs.ts";
import { agentSessionById } from "../../store/runs/agent-sessions.ts";
import type { AgentSessionView } from "../../store/runs/agent-sessions.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { isUuid } from "../../runtime/uuid.ts";
import type { EngineContext } from "../context.ts";
import type { Bearer } from "./agents.ts";
import { isSecret } from "./secrets.ts";

export interface AgentParts extends Pick<EngineContext, "transact" | "keyring" | "log" | "provisioning"> {
  readonly reader: Reader;
}

/** The session that a bearer has the secret of. */
export async function authenticated(
  { reader }: Pick<AgentParts, "reader">,
  { session: id, secret }: Bearer,
): Promise<AgentSessionView | undefined> {
  const view = isUuid(id) ? await agentSessionById(reader, id) : undefined;
  return view && isSecret(secret, view.session.secretHash) ? view : undefined;
}

/**
 * A MAC of another node, if an agent reports one and none of its own node's: it then runs on that node's machine, as
 * after two BMCs have exchanged their addresses.
 */
export async function macOfOtherNode(
  reader: Reader,
  nodeId: string,
  reported: readonly string[],
): Promise<MacOwner | undefined> {
  const macs = reported.flatMap((one) => macOf(one) ?? []).filter((mac) => isMeaningfulMac(mac, ""));
  const owners = await macOwners(reader, macs);
  return owners.some((owner) => owner.nodeId === nodeId) ? undefined : owners[0];
}
