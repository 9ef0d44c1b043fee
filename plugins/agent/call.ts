/** Types of this driver's steps, and the parts that several of them share. */
import type { AgentStatus, Step, StepArgs, StepCall } from "../../src/drivers/driver.ts";
import type { AgentSettings } from "./settings.ts";

export type AgentCall<Args extends StepArgs = StepArgs> = StepCall<AgentSettings, Args>;
export type AgentStep<Args extends StepArgs = StepArgs> = Step<AgentSettings, Args>;

/** The agent polls each second, and the service stores every fifth contact. */
const ALIVE_SECONDS = 15;

/** Seconds since the agent was seen; infinite if it was not. */
export function silentSeconds({ seenAt }: Pick<AgentStatus, "seenAt">): number {
  return seenAt === null ? Infinity : (Date.now() - Date.parse(seenAt)) / 1000;
}

/** The session of this run, unless it has ended; null if there is none. */
export async function openSessionOf({ agent }: Pick<AgentCall, "agent">): Promise<AgentStatus | null> {
  const status = await agent.status();
  return status?.endedAt === null ? status : null;
}

/** Whether the agent of an open session runs now. */
export function isAlive(session: AgentStatus): boolean {
  return session.contactAt !== null && silentSeconds(session) <= ALIVE_SECONDS;
}

export function secondsFromNow(seconds: number): string {
  return new Date(Date.now() + seconds * 1000).toISOString();
}

export function isOver(time: string): boolean {
  return Date.now() >= Date.parse(time);
}
