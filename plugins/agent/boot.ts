/**
 * Boots the agent on a machine. The stages are kept in the memo, so that any process goes on, and so that no stage is
 * done twice unless a process died within it:
 * - none: left at once if the agent of this run is alive. An agent that was seen, but not just now, is looked for.
 * - SEEKING: the service may have been away; left when the agent is seen, or after 20 s, when it is booted again.
 * - OPENED: a session is open, and the medium, if any, is inserted. Left when the machine was started.
 * - STARTED: left at the first contact, or when the time of the node's settings is over: with a failure, or, if the
 *   medium was not fetched since, once for another start from it, by the other boot source that a BMC may have for it.
 */
import * as z from "zod";
import type { AgentStatus, BootOptions, StepResult } from "../../src/drivers/driver.ts";
import { bootFailure, bootProgress } from "./boot-report.ts";
import type { Route } from "./boot-report.ts";
import type { AgentCall } from "./call.ts";
import { isAlive, isOver, openSessionOf, secondsFromNow } from "./call.ts";
import { AgentError, isFailureOfDriver, isRefusedForGood, isRefusedForNow, isUnsupported, messageOf } from "./error.ts";

const SEEK_SECONDS = 20;
const SEEK_POLL_SECONDS = 3;
/** The first contact ends a wait early, and each entry shows how far the machine is. */
const CONTACT_POLL_SECONDS = 5;

const route = z.enum(["MEDIUM", "NETWORK", "HTTP"]);
const memoSchema = z.object({
  boot: z.discriminatedUnion("stage", [
    z.object({ stage: z.literal("SEEKING"), until: z.string() }),
    z.object({ stage: z.literal("OPENED"), route, url: z.string().nullable().default(null) }),
    z.object({ stage: z.literal("STARTED"), route, until: z.string(), isOther: z.boolean().default(false) }),
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
  if (boot?.stage === "OPENED") return start(call, boot);
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
    if (problem === null) return waitFor({ stage: "OPENED", route: "MEDIUM", url: null }, 0);
    fallBack(call, problem);
  }
  call.signal.throwIfAborted();
  const { loaderUrl } = await open("NETWORK");
  if (first === "HTTP") return waitFor({ stage: "OPENED", route: "HTTP", url: loaderUrl }, 0);
  return waitFor({ stage: "OPENED", route: "NETWORK", url: null }, 0);
}

/** Null, or why the machine takes no virtual medium, if it may start in another way. Every other error is thrown. */
async function insert(call: AgentCall, url: string): Promise<string | null> {
  try {
    await call.media.insert(url);
    return null;
  } catch (error) {
    const isFinal = isUnsupported(error) || (call.settings.boot === "AUTO" && isRefusedForGood(error));
    if (!isFinal) throw error;
    return messageOf(error);
  }
}

function fallBack({ settings, node, log }: AgentCall, problem: string): void {
  if (settings.boot === "MEDIA")
    throw new AgentError("UNSUPPORTED", `Node ${node.name} cannot start from a virtual medium: ${problem}`);
  log(`The machine cannot start from a virtual medium, so it starts from the network: ${problem}`);
}

const DEVICES = { MEDIUM: "CDROM", NETWORK: "PXE", HTTP: "HTTP" } as const;

/** Off and on, however often it is entered. The boot device is set just before: a BMC may forget it after a minute. */
async function start(
  call: AgentCall,
  {
    route: by,
    url = null,
    isOther = false,
  }: { readonly route: Route; readonly url?: string | null; readonly isOther?: boolean },
): Promise<Booted> {
  const how: Pick<BootOptions, "other" | "url"> = { ...(isOther && { other: true }), ...(url !== null && { url }) };
  // Without another boot source the machine keeps its power: what it shows may say why it does not start.
  if (isOther) await setBootDevice(call, DEVICES[by], how);
  await call.power.set("OFF");
  try {
    await setBootDevice(call, DEVICES[by], how).catch((error: unknown) => setWhileOn(call, DEVICES[by], how, error));
  } catch (error) {
    if (!isUnsupported(error) || isOther) throw error;
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
  return waitFor({ stage: "STARTED", route: by, until, isOther }, CONTACT_POLL_SECONDS);
}

/** Some BMCs set the boot device only while the machine is on. Throws the first error if the second try fails too. */
async function setWhileOn(
  call: AgentCall,
  device: (typeof DEVICES)[Route],
  how: Pick<BootOptions, "other" | "url">,
  first: unknown,
): Promise<void> {
  if (!isRefusedForNow(first)) throw first;
  call.log(`The boot device is set once more while the machine is on: ${messageOf(first)}`);
  await call.power.set("ON");
  const second = await setBootDevice(call, device, how).catch((error: unknown) => ({ error }));
  call.signal.throwIfAborted();
  await call.power.set("OFF");
  if (second === undefined) return;
  call.log(messageOf(second.error));
  throw first;
}

export async function setBootDevice(
  call: AgentCall,
  device: "CDROM" | "PXE" | "HTTP" | "DISK",
  how: Pick<BootOptions, "other" | "url"> = {},
): Promise<void> {
  const { bootMode } = call.settings;
  await call.power.setBootDevice(device, { persistent: false, ...(bootMode && { mode: bootMode }), ...how });
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
    if (wasNotFetched(call, boot, session)) {
      call.log("The machine has not started from the medium; it is started by the other boot source for it, if any.");
      const again = await start(call, { route: "MEDIUM", isOther: true }).catch((error: unknown) => {
        if (!isFailureOfDriver(error)) throw error;
        call.log(messageOf(error));
      });
      if (again) return again;
    }
    return failed("TIMEOUT", bootFailure(facts, session));
  }
  const { percent, text } = bootProgress(session, boot.route);
  call.progress(percent, text);
  return waitFor(boot, CONTACT_POLL_SECONDS);
}

/** Some BMCs read a medium when it is inserted: that says nothing about the start. */
function wasNotFetched(
  { settings }: AgentCall,
  { route: by, isOther, until }: Extract<Boot, { stage: "STARTED" }>,
  { scriptAt }: AgentStatus,
): boolean {
  const startedAt = Date.parse(until) - settings.bootTimeoutSeconds * 1000;
  return by === "MEDIUM" && !isOther && (scriptAt === null || Date.parse(scriptAt) < startedAt);
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
