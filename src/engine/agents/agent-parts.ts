/** The parts that the functions of agents share, and the check of an agent's credentials. */
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
