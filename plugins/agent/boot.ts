/**
 * Boots the agent on a machine. The stages are kept in the memo, so that any process goes on, and so that no stage is
 * done twice unless a process died within it:
 * - none: left at once if the agent of this run is alive. An agent that was seen, but not just now, is looked for.
 * - SEEKING: the service may have been away; left when the agent is seen, or after 20 s, when it is booted again.
 * - OPENED: a session is open, and the medium, if any, is inserted. Left when the machine was started.
 * - STARTED: left at the first contact, or with a failure when the time of the node's settings is over.
 */
import * as z from "zod";
import type { AgentStatus, StepResult } from "../../src/drivers/driver.ts";
import { bootFailure, bootProgress } from "./boot-report.ts";
import type { Route } from "./boot-report.ts";
import type { AgentCall } from "./call.ts";
import { isAlive, isOver, openSessionOf, secondsFromNow } from "./call.ts";
import { AgentError, isUnsupported, messageOf, withoutAddress } from "./error.ts";

const SEEK_SECONDS = 20;
const SEEK_POLL_SECONDS = 3;
/** The first contact ends a wait early, and each entry shows how far the machine is. */
const CONTACT_POLL_SECONDS = 5;

const route = z.enum(["MEDIUM", "NETWORK", "HTTP"]);
const memoSchema = z.object({
  boot: z.discriminatedUnion("stage", [
    z.object({ stage: z.literal("SEEKING"), until: z.string() }),
    z.object({ stage: z.literal("OPENED"), route }),
    z.object({ stage: z.literal("STARTED"), route, until: z.string() }),
  ]),
});

type Boot = z.output<typeof memoSchema>["boot"];

/** The agent, or the result of an entry that has not come so far. */
export type Booted = { readonly agent: AgentStatus } | { readonly result: StepResult };

export async function bootAgent(call: AgentCall): Promise<Booted> {
  const boot = memoSchema.safeParse(call.memo).data?.boot;
  const session = await openSessionOf(call);
  if (boot?.stage === "STARTED") return awaitContact(call, boot, session);
  if (session && isAlive(session)) return contact(call, session, boot?.stage === "OPENED" ? boot.route : null);
  if (boot?.stage === "OPENED") return start(call, boot.route);
  if (session?.contactAt != null && !(boot && isOver(boot.until))) {
    const until = boot?.until ?? secondsFromNow(SEEK_SECONDS);
    return waitFor({ stage: "SEEKING", until }, SEEK_POLL_SECONDS);
  }
  return openSession(call, call.settings.boot === "HTTP" ? "HTTP" : allowsMedium(call) ? "MEDIUM" : "NETWORK");
}

function waitFor(boot: Boot, seconds: number): Booted {
  return { result: { kind: "wait", callback: true, seconds, memo: { boot } } };
}

function allowsMedium({ settings, media, node }: AgentCall): boolean {
  if (settings.boot === "MEDIA" && !media.offered)
    throw new AgentError(
      "UNSUPPORTED",
      `The setting boot of node ${node.name} is MEDIA, but no driver of the node has virtual media. Set it to AUTO or NETWORK, or take MEDIA from a driver that has it.`,
    );
  return media.offered && (settings.boot === "AUTO" || settings.boot === "MEDIA");
}

/** Opens a session, and inserts its medium. A session that an earlier entry has opened ends with it. */
async function openSession(call: AgentCall, first: Route): Promise<Booted> {
  const { architecture, network, console } = call.settings;
  const open = (medium: "ISO" | "NETWORK") =>
    call.agent.open({
      medium,
      architecture,
      ...(console !== undefined && { kernelArguments: [`console=${console}`] }),
      ...(network && { network: present(network) }),
    });
  if (first === "MEDIUM") {
    const { mediumUrl } = await open("ISO");
    const problem =
      mediumUrl === null ? `the service has no medium of the agent for ${architecture}` : await insert(call, mediumUrl);
    if (problem === null) return waitFor({ stage: "OPENED", route: "MEDIUM" }, 0);
    fallBack(call, problem);
  }
  call.signal.throwIfAborted();
  await open("NETWORK");
  return waitFor({ stage: "OPENED", route: first === "HTTP" ? "HTTP" : "NETWORK" }, 0);
}

/** Null, or why the machine has no virtual media. Every other error is thrown. */
async function insert(call: AgentCall, url: string): Promise<string | null> {
  try {
    await call.media.insert(url);
    return null;
  } catch (error) {
    const shown = withoutAddress(error, url);
    if (!isUnsupported(error)) throw shown;
    return messageOf(shown);
  }
}

function fallBack({ settings, node, log }: AgentCall, problem: string): void {
  if (settings.boot === "MEDIA")
    throw new AgentError("UNSUPPORTED", `Node ${node.name} cannot start from a virtual medium: ${problem}`);
  log(`The machine cannot start from a virtual medium, so it starts from the network: ${problem}`);
}

const DEVICES = { MEDIUM: "CDROM", NETWORK: "PXE", HTTP: "HTTP" } as const;

/** Off and on, however often it is entered. The boot device is set just before: a BMC may forget it after a minute. */
async function start(call: AgentCall, by: Route): Promise<Booted> {
  await call.power.set("OFF");
  try {
    await setBootDevice(call, DEVICES[by]);
  } catch (error) {
    if (!isUnsupported(error)) throw error;
    if (by === "MEDIUM" && call.settings.boot === "AUTO") {
      await ejectMedium(call);
      fallBack(call, messageOf(error));
      return openSession(call, "NETWORK");
    }
    if (by === "HTTP") throw error;
    call.log(`The boot device cannot be set, so the machine's own boot order decides: ${messageOf(error)}`);
  }
  call.signal.throwIfAborted();
  await call.power.set("ON");
  call.progress(10, "the machine was powered on");
  const until = secondsFromNow(call.settings.bootTimeoutSeconds);
  return waitFor({ stage: "STARTED", route: by, until }, CONTACT_POLL_SECONDS);
}

export async function setBootDevice(call: AgentCall, device: "CDROM" | "PXE" | "HTTP" | "DISK"): Promise<void> {
  const { bootMode } = call.settings;
  await call.power.setBootDevice(device, { persistent: false, ...(bootMode && { mode: bootMode }) });
}

async function awaitContact(
  call: AgentCall,
  boot: Extract<Boot, { stage: "STARTED" }>,
  session: AgentStatus | null,
): Promise<Booted> {
  const { node, settings } = call;
  if (session === null)
    return failed("OTHER", `The session of the agent on node ${node.name} ended while the machine started.`);
  if (session.contactAt !== null) return contact(call, session, boot.route);
  if (isOver(boot.until)) {
    const power = await call.power.read().catch(() => "UNKNOWN" as const);
    const facts = { node: node.name, seconds: settings.bootTimeoutSeconds, route: boot.route, power };
    return failed("TIMEOUT", bootFailure(facts, session));
  }
  const { percent, text } = bootProgress(session, boot.route);
  call.progress(percent, text);
  return waitFor(boot, CONTACT_POLL_SECONDS);
}

function failed(errorKind: "TIMEOUT" | "OTHER", reason: string): Booted {
  // No task was assigned yet.
  return { result: { kind: "failed", reason, retryable: true, errorKind, atRest: true } };
}

/**
 * The agent runs. `by`: how this step has booted it; null if it ran already. It runs from memory, so its medium is
 * ejected; a deployment tries again before it starts the installed system.
 */
async function contact(call: AgentCall, session: AgentStatus, by: Route | null): Promise<Booted> {
  if (by === null) return { agent: session };
  call.log(`Agent ${session.version ?? "(no version)"} has made contact from ${session.address ?? "no address"}.`);
  if (by === "MEDIUM")
    await ejectMedium(call).catch((error: unknown) => {
      call.signal.throwIfAborted();
      call.log(`The medium could not be ejected: ${messageOf(error)}`);
    });
  return { agent: session };
}

/** Removes the medium, if the node can have one. */
export async function ejectMedium({ media }: Pick<AgentCall, "media">): Promise<void> {
  if (!media.offered) return;
  await media.eject().catch((error: unknown) => {
    if (!isUnsupported(error)) throw error;
  });
}

/** Optional members that are undefined are left out. */
function present(network: NonNullable<AgentCall["settings"]["network"]>) {
  const { mac, address, gateway, dns } = network;
  return { mac: mac.toLowerCase(), address, ...(gateway !== undefined && { gateway }), ...(dns && { dns }) };
}
