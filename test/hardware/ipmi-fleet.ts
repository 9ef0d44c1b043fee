/**
 * `npm run tool -- hardware`: an end-to-end test with the real protocol. The service runs in a separate process with
 * the drivers `ipmi` and `fake` and its embedded database, and ipmitool reaches 22 simulated BMCs (ipmi_sim). The test
 * uses only GraphQL over HTTP and a WebSocket subscription. It reads the effects from the power and the journal of each
 * BMC, not from the service.
 *
 * Twenty nodes work, one has a wrong password, one has a dead BMC. The test commissions, switches, inspects, fails and
 * aborts them, and commissions them again with a `kill -9` in the middle. At the end it searches all output for
 * passwords.
 *
 * Needs the Debian packages openipmi and ipmitool. Prints one line per check with the seconds since the start, then `N
 * passed, N failed`; the exit code is 0 only if all passed. Cleans up even if it is interrupted. Takes about a minute.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { createClient } from "graphql-ws";
import postgres from "postgres";
import { WebSocket } from "ws";
import { ask } from "../support/ask.ts";
import { eventually } from "../support/eventually.ts";
import { inputTypeOf } from "../support/input-type.ts";
import { demandIpmiPrograms, startIpmiLab } from "../support/ipmi-lab.ts";
import type { IpmiLab, SimulatedBmc } from "../support/ipmi-lab.ts";

const FLEET = 20;
const CLUSTER = "rack1";
/** 16 characters, so that only a leak can contain it. */
const WRONG_PASSWORD = "wrong-9c41f0ab77";
/** Long enough for a kill to interrupt running steps of the driver `fake`. */
const FAKE_SETTINGS = { delayMs: 50, waitSeconds: 0.2 };
/** Sensors of every BMC, from ipmi-lab.ts. */
const SENSORS = [
  { name: "Inlet temp", kind: "Temperature", value: 23, unit: "degrees C", status: "OK" },
  { name: "Cpu1 temp", kind: "Temperature", value: 51, unit: "degrees C", critical: { upper: 90 }, status: "OK" },
  { name: "Sys fan 1", kind: "Fan", value: 4800, unit: "RPM", status: "OK" },
  {
    name: "Supply 12v",
    kind: "Voltage",
    value: 12.06,
    unit: "Volts",
    critical: { lower: 11.4, upper: 12.6 },
    status: "OK",
  },
] as const;

/** Settings with which the driver gives up on a silent BMC after 4 s instead of 20. */
const IMPATIENT = { replySeconds: 1, sessionTries: 1 };

/** Limits in seconds, about five times the usual duration, and less than the wait for a silent BMC. */
const LOGIN_REFUSED_MAX = 10;
/** The time limit of one call is 30 s. */
const DEAD_BMC_MAX = 40;
const ABORT_MAX = 5;
/** For an abort that has to switch the power off while the BMC does not answer. */
const ABORT_DEAD_BMC_MAX = 15;
/** A lease lasts 10 s; replicas search for expired leases at intervals. */
const TAKE_OVER_MAX = 20;
const WORK_MS = 60_000;

interface Machine {
  readonly name: string;
  readonly bmc: SimulatedBmc;
}

/** Shared by all parts of the test. */
interface Fixture {
  readonly good: readonly Machine[];
  readonly locked: Machine;
  readonly dead: Machine;
  readonly service: Service;
  readonly api: Api;
  readonly subscriber: Subscriber;
  readonly spy: Spy;
}

async function runAll(fixture: Fixture): Promise<void> {
  await registersTheFleet(fixture);
  await commissionsAllAtOnce(fixture);
  await switchesPower(fixture);
  await inspectsInPlace(fixture);
  await failsOnlyOnBadNodes(fixture);
  await abortsOnBmcsThatHang(fixture);
  await survivesKillMinusNine(fixture);
  await streamsEveryTransition(fixture);
  await keepsItsSecrets(fixture);
  await shutsDown(fixture);
}

// ---- checks, in order

async function registersTheFleet({ good, locked, dead, api }: Fixture): Promise<void> {
  const created = await api.query<{ createCluster: { errors: readonly Refusal[] } }>(
    "mutation ($input: CreateClusterInput!) { createCluster(input: $input) { errors { code message } } }",
    { input: { name: CLUSTER } },
  );
  const interfaces = [{ kinds: ["DEPLOY", "CLEAN"], driver: { fake: FAKE_SETTINGS } }];
  const node = ({ name, bmc }: Machine, password = bmc.password) => ({
    name,
    driver: { ipmi: settingsOf(bmc, password) },
    interfaces,
  });
  const register = (nodes: readonly unknown[]) =>
    api.query<{ registerNodes: { count: number; errors: readonly Refusal[] } }>(
      "mutation ($input: RegisterNodesInput!) { registerNodes(input: $input) { count errors { code message } } }",
      { input: { nodes } },
    );

  const { registerNodes: refused } = await register([node(locked, `${locked.bmc.password}-${WRONG_PASSWORD}`)]);
  check(
    "a password that is too long for IPMI is refused with one error, which names the setting but not its value",
    refused.errors.length === 1 && /\(password\)/.test(refused.errors[0]?.message ?? ""),
    refused.errors.map(({ message }) => message).join(" "),
  );

  const { registerNodes } = await register([
    ...good.map((machine) => ({ ...node(machine), cluster: { name: CLUSTER } })),
    node(locked, WRONG_PASSWORD),
    node(dead),
  ]);
  check(
    `${FLEET} good nodes are registered in a cluster, one with a wrong password, one with a dead BMC`,
    created.createCluster.errors.length === 0 && registerNodes.count === FLEET + 2,
    registerNodes.errors[0]?.message,
  );
  const nodes = await api.nodes();
  check(
    "passwords are set and never returned",
    nodes.length === FLEET + 2 &&
      nodes.every(
        ({ drivers: [own] }) =>
          own?.secretsSet.includes("password") === true && own.settings.ipmi?.["cipherSuite"] === 3,
      ),
  );
}

async function commissionsAllAtOnce({ good, api, subscriber }: Fixture): Promise<void> {
  const operation = await api.work("commissionNodes", { nodes: { cluster: { name: CLUSTER } } });
  const ended = await api.end(operation);
  const nodes = await api.nodesOf(good);
  check(
    `one mutation commissions all ${FLEET} nodes`,
    ended.state === "SUCCEEDED" && nodes.every(({ state }) => state === "ACTIVE"),
    `${ended.state}, ${secondsOf(ended)} s`,
  );
  check("every machine is on after the commission", await everyPower(good, "ON"));
  const journals = await Promise.all(good.map(eventsOf));
  check(
    "every BMC received network boot, then power on, and no other command",
    journals.every((events) => events.join() === "boot pxe,power on"),
    unlike(journals, "boot pxe,power on"),
  );
  check(
    "each inventory has the serial number of its own BMC",
    nodes.every(({ inventory }, index) => inventory?.data["serial"] === good[index]?.bmc.serial),
    `${String(nodes[0]?.inventory?.data["serial"])} to ${String(nodes.at(-1)?.inventory?.data["serial"])}`,
  );
  const sensors = nodes.map(({ inventory }) => (inventory?.data["sensors"] ?? []) as readonly unknown[]);
  check(
    "each inventory has the temperatures, fan and voltage of its BMC",
    sensors.every((list) => SENSORS.every((wanted) => list.some((sensor) => isDeepStrictEqual(sensor, wanted)))),
    SENSORS.map(({ name, value, unit }) => `${name} ${value} ${unit}`).join(", "),
  );
  const all = await api.transitions();
  await subscriber.reaches(all.length);
  check(
    "the WebSocket subscriber received every transition in order, without a gap",
    subscriber.seen.map(({ cursor }) => cursor).join() === all.map(({ cursor }) => cursor).join() &&
      gaps(subscriber.seen) === 0,
    `${subscriber.seen.length} of ${all.length}`,
  );
}

async function switchesPower({ good, api }: Fixture): Promise<void> {
  const names = good.map(({ name }) => name);
  const set = async (action: string, only = names) =>
    api.end(await api.work("setPower", { nodes: { names: only }, action }));

  const off = await set("OFF");
  check(
    `setPower OFF: all ${FLEET} BMCs report their machines off`,
    off.state === "SUCCEEDED" && (await everyPower(good, "OFF")),
    `${secondsOf(off)} s`,
  );
  check(
    "after setPower OFF the nodes are still ACTIVE, with power OFF",
    (await api.nodesOf(good)).every(({ state, powerState }) => state === "ACTIVE" && powerState === "OFF"),
  );

  const before = await Promise.all(good.map(eventsOf));
  const again = await set("OFF");
  const after = await Promise.all(good.map(eventsOf));
  check(
    "setPower OFF again succeeds without a command to any BMC",
    again.state === "SUCCEEDED" && after.every((events, index) => events.length === before[index]?.length),
    `${secondsOf(again)} s`,
  );

  const on = await set("ON");
  check(
    `setPower ON: all ${FLEET} machines are on`,
    on.state === "SUCCEEDED" && (await everyPower(good, "ON")),
    `${secondsOf(on)} s`,
  );

  const [one] = good as [Machine];
  const rebootStart = (await eventsOf(one)).length;
  const reboot = await set("REBOOT", [one.name]);
  const events = (await eventsOf(one)).slice(rebootStart);
  check(
    "a reboot switches off, then on",
    reboot.state === "SUCCEEDED" && events.join() === "power off,power on",
    `${events.join(", ")}; ${secondsOf(reboot)} s`,
  );
}

async function inspectsInPlace({ good, api }: Fixture): Promise<void> {
  const before = await api.nodesOf(good);
  const ended = await api.end(await api.work("inspectNodes", { nodes: { cluster: { name: CLUSTER } } }));
  const after = await api.nodesOf(good);
  check(
    `all ${FLEET} nodes are inspected while ACTIVE: no state changes, each has a newer inventory`,
    ended.state === "SUCCEEDED" &&
      after.every(
        ({ state, transitionCount, inventory }, index) =>
          state === "ACTIVE" &&
          transitionCount === before[index]?.transitionCount &&
          String(inventory?.takenAt) > String(before[index]?.inventory?.takenAt),
      ),
    `${secondsOf(ended)} s`,
  );
  check("every machine is still on after the inspection", await everyPower(good, "ON"));
}

async function failsOnlyOnBadNodes({ good, locked, dead, api, spy }: Fixture): Promise<void> {
  const left = await api.end(await api.work("decommissionNodes", { nodes: { cluster: { name: CLUSTER } } }));
  check(
    `all ${FLEET} nodes are decommissioned, and off`,
    left.state === "SUCCEEDED" &&
      (await api.nodesOf(good)).every(({ state }) => state === "DECOMMISSIONED") &&
      (await everyPower(good, "OFF")),
    `${secondsOf(left)} s`,
  );

  const earlier = await Promise.all(good.map(eventsOf));
  const names = [...good, locked, dead].map(({ name }) => name);
  const operation = await api.work("commissionNodes", {
    nodes: { names },
    onFailure: "LEAVE",
    acceptance: "BEST_EFFORT",
  });
  const began = Date.now();
  await eventually(
    "the good nodes are ACTIVE",
    async () => (await api.nodesOf(good)).every(({ state }) => state === "ACTIVE"),
    WORK_MS,
  );
  const meanwhile = await api.operation(operation);
  check(
    "the good nodes are ACTIVE before the call of the dead BMC times out",
    meanwhile.finishedAt === null,
    `${secondsSince(began)} s`,
  );

  // It would be waited for five minutes, as BMCs restart.
  const waiting = await eventually(
    "the dead BMC is waited for",
    async () => (await api.operation(operation)).runs.find(({ state }) => state === "WAITING"),
    WORK_MS,
  );
  check(
    `the dead BMC is waited for as one that does not answer, within ${DEAD_BMC_MAX} s`,
    waiting.nodeName === dead.name &&
      /does not answer/.test(waiting.waiting?.lastAttempts.at(-1)?.failure?.message ?? "") &&
      Number(secondsSince(began)) < DEAD_BMC_MAX,
    `${secondsSince(began)} s: ${waiting.waiting?.lastAttempts.at(-1)?.failure?.message}`,
  );
  const { ended, run: silent, seconds } = await abortOf({ api, spy }, dead, operation);
  const refused = ended.runs.find(({ nodeName }) => nodeName === locked.name);
  check(
    `an abort ends the wait for the dead BMC within ${ABORT_MAX} s, and only the wrong password has failed`,
    ended.state === "ABORTED" &&
      silent?.state === "ABORTED" &&
      ended.runs.filter(({ state }) => state === "FAILED").every((run) => run === refused) &&
      seconds < ABORT_MAX,
    `${ended.state}, ${silent?.state}, ${seconds} s`,
  );
  check(
    `the wrong password is reported as a refused login, within ${LOGIN_REFUSED_MAX} s`,
    /refuses the login/.test(refused?.failure?.message ?? "") &&
      refused?.failure?.retryable === false &&
      Number(secondsOf(refused)) < LOGIN_REFUSED_MAX,
    described(refused),
  );
  const bad = await api.nodesOf([locked, dead]);
  check(
    "both bad nodes are ENROLLED again, with an error",
    bad.every(({ state, lastError }) => state === "ENROLLED" && lastError !== null) &&
      (await eventsOf(locked)).length === 0,
    bad.map(({ lastError }) => lastError?.code).join(", "),
  );
  const journals = (await Promise.all(good.map(eventsOf))).map((events, index) => events.slice(earlier[index]?.length));
  check(
    "the good nodes were switched on once, and are on",
    (await everyPower(good, "ON")) && journals.every((events) => events.join() === "boot pxe,power on"),
    unlike(journals, "boot pxe,power on"),
  );

  const [lockedNode, deadNode] = bad;
  const update = async (input: unknown) =>
    (
      await api.query<{ updateNodes: { errors: Refusal[] } }>(
        "mutation ($input: UpdateNodesInput!) { updateNodes(input: $input) { errors { code message } } }",
        { input },
      )
    ).updateNodes.errors;
  const refusals = await update({
    nodes: { ids: [lockedNode?.id] },
    driver: { ipmi: { password: locked.bmc.password } },
  });
  // Without the password: an omitted secret is kept.
  refusals.push(...(await update({ nodes: { ids: [deadNode?.id] }, driver: { ipmi: IMPATIENT } })));
  dead.bmc.thaw();
  const repaired = await api.end(await api.work("commissionNodes", { nodes: { names: [locked.name, dead.name] } }));
  check(
    "after the password is corrected and the BMC is back, both nodes commission to ACTIVE",
    refusals.length === 0 &&
      repaired.state === "SUCCEEDED" &&
      (await api.nodesOf([locked, dead])).every(({ state, lastError }) => state === "ACTIVE" && lastError === null) &&
      (await everyPower([locked, dead], "ON")),
    `${repaired.state}, ${secondsOf(repaired)} s`,
  );
}

/** Aborts the work on a machine whose BMC hangs. Returns how the operation has ended. */
async function abortOf({ api, spy }: Pick<Fixture, "api" | "spy">, { name, bmc }: Machine, operation: string) {
  const began = Date.now();
  const { abort: answer } = await api.query<{
    abort: { errors: readonly Refusal[]; results: readonly { accepted: boolean; abortEffect: string | null }[] };
  }>(
    "mutation ($input: AbortInput!) { abort(input: $input) { errors { code message } results { accepted abortEffect } } }",
    { input: { work: { names: [name] }, reason: "its BMC hangs" } },
  );
  const ended = await api.end(operation);
  const seconds = (Date.now() - began) / 1000;
  await eventually("its ipmitool has ended", () => spy.alive(bmc).length === 0, 2_000);
  const run = ended.runs.find(({ nodeName }) => nodeName === name);
  return { ended, run, seconds, effect: answer.results[0]?.abortEffect };
}

async function abortsOnBmcsThatHang({ good, dead, api, spy }: Fixture): Promise<void> {
  const [first, second] = good as [Machine, Machine];
  const abort = (machine: Machine, operation: string) => abortOf({ api, spy }, machine, operation);
  first.bmc.freeze();
  const inspection = await api.work("inspectNodes", { nodes: { names: [first.name] } });
  await eventually("ipmitool calls the frozen BMC", () => spy.alive(first.bmc).length > 0);
  await delay(300);
  const inspected = await abort(first, inspection);
  check(
    `an inspection on a BMC that hangs is aborted within ${ABORT_MAX} s`,
    inspected.ended.state === "ABORTED" && inspected.effect === "NOW" && inspected.seconds < ABORT_MAX,
    `${inspected.ended.state}, ${inspected.seconds} s`,
  );
  first.bmc.thaw();
  const again = await api.end(await api.work("inspectNodes", { nodes: { names: [first.name] } }));
  const [node] = await api.nodesOf([first]);
  check(
    "after the aborted inspection the node is ACTIVE, and is inspected when its BMC is back",
    again.state === "SUCCEEDED" && node?.state === "ACTIVE" && node.lastError === null,
    `${secondsOf(again)} s`,
  );

  const earlier = (await eventsOf(second)).length;
  await second.bmc.setDelay(0.5);
  const reboot = await api.work("setPower", { nodes: { names: [second.name] }, action: "REBOOT" });
  await eventually("the reboot has cut the power", async () =>
    (await eventsOf(second)).slice(earlier).includes("power off"),
  );
  second.bmc.freeze();
  const rebooted = await abort(second, reboot);
  second.bmc.thaw();
  await second.bmc.setDelay(0);
  check(
    `a reboot whose BMC hangs between off and on is aborted within ${ABORT_MAX} s`,
    rebooted.ended.state === "ABORTED" && rebooted.effect === "NOW" && rebooted.seconds < ABORT_MAX,
    `${rebooted.ended.state}, ${rebooted.seconds} s`,
  );
  await delay(1_000);
  const events = (await eventsOf(second)).slice(earlier);
  check(
    "after the aborted reboot the machine stays off",
    (await second.bmc.power()) === "OFF" && !events.includes("power on"),
    events.join(", "),
  );
  const on = await api.end(await api.work("setPower", { nodes: { names: [second.name] }, action: "ON" }));
  check(
    "setPower ON works after the aborted reboot",
    on.state === "SUCCEEDED" && (await second.bmc.power()) === "ON",
    `${secondsOf(on)} s`,
  );

  await api.end(await api.work("decommissionNodes", { nodes: { names: [dead.name] } }));
  const commission = await api.work("commissionNodes", { nodes: { names: [dead.name] } });
  await eventually("it is being deployed", async () => (await api.nodesOf([dead]))[0]?.state === "DEPLOYING");
  dead.bmc.freeze();
  const aborted = await abort(dead, commission);
  const [left] = await api.nodesOf([dead]);
  check(
    `a deployment on a BMC that hangs is aborted within ${ABORT_DEAD_BMC_MAX} s, and reports that the power is unknown`,
    aborted.ended.state === "ABORTED" &&
      left?.state === "DEPLOY_FAILED" &&
      aborted.run?.machineCondition?.power === "UNKNOWN" &&
      /does not answer/.test(aborted.run.machineCondition.cleanUpError ?? "") &&
      aborted.seconds < ABORT_DEAD_BMC_MAX,
    `${aborted.seconds} s; ${aborted.run?.machineCondition?.cleanUpError}`,
  );
  dead.bmc.thaw();
  const restarted = await api.end(await api.work("restart", { work: { names: [dead.name] } }));
  check(
    "a restart after the aborted deployment brings the node to ACTIVE",
    restarted.state === "SUCCEEDED" &&
      (await api.nodesOf([dead]))[0]?.state === "ACTIVE" &&
      (await everyPower([dead], "ON")),
    `${secondsOf(restarted)} s`,
  );
}

async function survivesKillMinusNine({ good, api, service, spy }: Fixture): Promise<void> {
  await api.end(await api.work("decommissionNodes", { nodes: { cluster: { name: CLUSTER } } }));
  // With few nodes at a time and BMCs of different speed, the kill finds nodes in many states and an ipmitool running.
  await Promise.all(good.map(({ bmc }, index) => bmc.setDelay((index % 10) * 0.1)));
  const earlier = await Promise.all(good.map(eventsOf));
  const operation = await api.work("commissionNodes", {
    nodes: { cluster: { name: CLUSTER } },
    maxParallel: FLEET / 2,
  });
  const states = async () =>
    Map.groupBy(
      (await api.nodesOf(good)).map(({ state }) => state),
      (state) => state,
    );
  await eventually("some nodes are ACTIVE", async () => (await states()).has("ACTIVE"), WORK_MS);
  const found = await states();
  const inFlight = await eventually("ipmitool is running", () => spy.alive().length > 0 && spy.alive().length);
  const last = service.pid;
  await service.kill();
  const killed = Date.now();
  const census = [...found].map(([state, list]) => `${list.length} ${state}`).join(", ");
  check(
    "kill -9 interrupts a commission in the middle",
    (found.get("ACTIVE")?.length ?? 0) < FLEET && found.size > 2,
    `${census}; ${inFlight} ipmitool`,
  );

  await service.start();
  const ready = secondsSince(killed);
  const ended = await api.end(operation);
  check(
    `the restarted service brings all ${FLEET} nodes to ACTIVE`,
    ended.state === "SUCCEEDED" && (await api.nodesOf(good)).every(({ state }) => state === "ACTIVE"),
    `${ended.state}; ready after ${ready} s, done after ${secondsSince(killed)} s`,
  );
  check("every machine is on after the restart", await everyPower(good, "ON"));
  const journals = (await Promise.all(good.map(eventsOf))).map((events, index) => events.slice(earlier[index]?.length));
  check(
    "no machine was switched off during the restart",
    journals.every((events) => !events.includes("power off") && events.at(-1) === "power on"),
    journals.find((events) => events.includes("power off"))?.join(", "),
  );
  const recovered = (await api.transitions()).filter(({ event }) => event === "RECOVER");
  const seconds = recovered.map(({ at }) => (Date.parse(at) - killed) / 1000);
  check(
    `interrupted runs continue within ${TAKE_OVER_MAX} s, with a transition RECOVER`,
    seconds.length > 0 && Math.max(...seconds) < TAKE_OVER_MAX,
    `${seconds.length} recovered, ${Math.min(...seconds).toFixed(1)} to ${Math.max(...seconds).toFixed(1)} s after the kill`,
  );
  check(
    "the ipmitool processes of the killed service have ended",
    spy.childrenOf(last).length === 0 && spy.alive().length === 0,
  );
  await Promise.all(good.map(({ bmc }) => bmc.setDelay(0)));
}

async function streamsEveryTransition({ api, subscriber }: Fixture): Promise<void> {
  const all = await api.transitions();
  await subscriber.reaches(all.length);
  check(
    "the subscriber received every transition once, also across the kill",
    gaps(subscriber.seen) === 0 && subscriber.seen.length === all.length,
    `${subscriber.seen.length} of ${all.length}, ${subscriber.connections()} connections`,
  );
  const last = new Map<string, Transition>();
  const broken = subscriber.seen.filter((transition) => {
    const before = last.get(transition.nodeName);
    last.set(transition.nodeName, transition);
    return transition.from !== (before?.to ?? null) || transition.sequence !== (before?.sequence ?? 0) + 1;
  });
  check(
    "the transitions of each node are consecutive, and end in its state",
    broken.length === 0 &&
      (await api.nodes()).every(
        ({ name, state, transitionCount }) =>
          last.get(name)?.to === state && last.get(name)?.sequence === transitionCount,
      ),
  );
}

async function keepsItsSecrets({ good, service, api, subscriber, spy }: Fixture): Promise<void> {
  const passwords = [good[0]?.bmc.password ?? "", WRONG_PASSWORD];
  const leaks = (texts: Iterable<string>) =>
    Iterator.from(texts)
      .filter((text) => passwords.some((password) => text.includes(password)))
      .toArray();
  const search = (where: string, texts: readonly string[], enough: boolean) => {
    const found = leaks(texts);
    check(
      `no password in ${where}`,
      found.length === 0 && enough,
      found[0] === undefined
        ? `${texts.length} searched`
        : `${found.length} of ${texts.length}: ${found[0].slice(0, 300)}`,
    );
  };
  const log = service.output().split("\n");
  search("the service's log", log, log.length > 100);
  search("the responses of the API", api.answers, api.answers.length > 100);
  search("the subscription's messages", subscriber.messages, subscriber.messages.length > 100);
  search("the command lines of ipmitool", spy.commandLines(), spy.commandLines().length > 50);
  const rows = await service.rows();
  search(
    "any table",
    rows.map(({ table, row }) => `${table} ${row}`),
    rows.filter(({ table }) => table === "public.node_secrets").length === FLEET + 2,
  );
}

async function shutsDown({ service, spy }: Fixture): Promise<void> {
  const { pid } = service;
  const began = Date.now();
  const code = await service.end();
  check(
    "the service shuts down on SIGTERM, and leaves no process",
    code === 0 && spy.childrenOf(pid).length === 0,
    `exit code ${code}, ${secondsSince(began)} s`,
  );
}

// ---- checks

const beginning = Date.now();
let passed = 0;
let failed = 0;

function check(title: string, ok: boolean, detail?: string): void {
  if (ok) passed += 1;
  else failed += 1;
  console.log(
    `${ok ? "ok  " : "FAIL"} ${secondsSince(beginning).padStart(5)} s  ${title}${detail === undefined || detail === "" ? "" : ` (${detail})`}`,
  );
}

function secondsSince(time: number): string {
  return ((Date.now() - time) / 1000).toFixed(1);
}

function secondsOf(work: Pick<Operation, "startedAt" | "finishedAt">): string {
  return work.startedAt === null || work.finishedAt === null
    ? "?"
    : ((Date.parse(work.finishedAt) - Date.parse(work.startedAt)) / 1000).toFixed(1);
}

function described(run: Run | undefined): string {
  return run === undefined ? "no run" : `${run.failure?.code}, ${secondsOf(run)} s: ${run.failure?.message}`;
}

/** Number of transitions whose cursor does not follow the one before; the log begins at 1. */
function gaps(transitions: readonly Transition[]): number {
  return transitions.filter(({ cursor }, index) => Number.parseInt(cursor, 10) !== index + 1).length;
}

async function everyPower(machines: readonly Machine[], wanted: "ON" | "OFF"): Promise<boolean> {
  return (await Promise.all(machines.map(({ bmc }) => bmc.power()))).every((power) => power === wanted);
}

async function eventsOf({ bmc }: Machine): Promise<readonly string[]> {
  return (await bmc.journal()).map(({ event }) => event);
}

/** The first journal that differs from the expected one, for the line of a failed check. */
function unlike(journals: readonly (readonly string[])[], wanted: string): string | undefined {
  const index = journals.findIndex((events) => events.join() !== wanted);
  return index < 0 ? undefined : `BMC ${index + 1}: ${journals[index]?.join(", ")}`;
}

function settingsOf(
  { address, port, username, cipherSuite }: SimulatedBmc,
  password: string,
): Readonly<Record<string, unknown>> {
  return { address, port, username, cipherSuite, password };
}

// ---- the API

interface Refusal {
  readonly code: string;
  readonly message: string;
}

interface Failure extends Refusal {
  readonly retryable: boolean;
}

interface Node {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly powerState: string;
  readonly transitionCount: number;
  readonly lastError: Failure | null;
  readonly inventory: { readonly takenAt: string; readonly data: Readonly<Record<string, unknown>> } | null;
  readonly drivers: readonly {
    readonly name: string;
    readonly settings: { readonly ipmi: Readonly<Record<string, unknown>> | null };
    readonly secretsSet: readonly string[];
  }[];
}

interface Run {
  readonly nodeName: string;
  readonly state: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly failure: Failure | null;
  readonly waiting: { readonly lastAttempts: readonly Pick<Run, "failure">[] } | null;
  /** Condition of the node after an abort. */
  readonly machineCondition: { readonly power: string; readonly cleanUpError: string | null } | null;
}

interface Operation {
  readonly state: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly runs: readonly Run[];
}

interface Transition {
  readonly cursor: string;
  readonly nodeName: string;
  readonly sequence: number;
  readonly from: string | null;
  readonly to: string | null;
  readonly event: string;
  readonly at: string;
}

interface Page<Item> {
  readonly edges: readonly { readonly node: Item }[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
}

const NODE =
  "id name state powerState transitionCount lastError { code message retryable } inventory { takenAt data } drivers { name settings { ipmi { address cipherSuite } } secretsSet }";
const TRANSITION = "cursor nodeName sequence from to event at";

interface Api {
  /** The text of every response. */
  readonly answers: readonly string[];
  query<Data>(text: string, variables?: Readonly<Record<string, unknown>>): Promise<Data>;
  /** Requests work and returns the id of the operation; throws if the request is refused. */
  work(verb: string, input: Readonly<Record<string, unknown>>): Promise<string>;
  operation(id: string): Promise<Operation>;
  /** Waits for the end of an operation. */
  end(id: string): Promise<Operation>;
  nodes(): Promise<readonly Node[]>;
  /** In the order of `machines`. */
  nodesOf(machines: readonly Machine[]): Promise<readonly Node[]>;
  transitions(): Promise<readonly Transition[]>;
}

function createApi(service: Service): Api {
  const answers: string[] = [];
  const query = <Data>(text: string, variables: Readonly<Record<string, unknown>> = {}): Promise<Data> =>
    ask<Data>(service.url, text, { variables, onAnswer: (answer) => answers.push(answer) });
  const operation = async (id: string): Promise<Operation> => {
    const { operation: found } = await query<{ operation: Omit<Operation, "runs"> & { readonly runs: Page<Run> } }>(
      "query ($id: ID!) { operation(id: $id) { state startedAt finishedAt runs(first: 100) { edges { node { nodeName state startedAt finishedAt failure { code message retryable } waiting { lastAttempts { failure { code message retryable } } } machineCondition { power cleanUpError } } } } } }",
      { id },
    );
    return { ...found, runs: found.runs.edges.map(({ node }) => node) };
  };
  const nodes = async () =>
    (await query<{ nodes: Page<Node> }>(`{ nodes(first: 100) { edges { node { ${NODE} } } } }`)).nodes.edges.map(
      ({ node }) => node,
    );
  return {
    answers,
    query,
    async work(verb, input) {
      const answered = await query<
        Record<string, { readonly operation: { readonly uuid: string } | null; readonly errors: readonly Refusal[] }>
      >(
        `mutation ($input: ${inputTypeOf(verb)}!) { ${verb}(input: $input) { operation { uuid } errors { code message } } }`,
        { input },
      );
      const { operation: stored, errors } = answered[verb] ?? { operation: null, errors: [] };
      if (!stored)
        throw new Error(`${verb} was refused: ${errors.map(({ code, message }) => `${code} ${message}`).join("; ")}`);
      return stored.uuid;
    },
    operation,
    end(id) {
      return eventually(
        `operation ${id} ends`,
        async () => {
          const found = await operation(id);
          return found.finishedAt !== null && found;
        },
        WORK_MS,
      );
    },
    nodes,
    async nodesOf(machines) {
      const found = new Map((await nodes()).map((node) => [node.name, node]));
      return machines.map(({ name }) => {
        const node = found.get(name);
        if (!node) throw new Error(`There is no node ${name}.`);
        return node;
      });
    },
    async transitions() {
      const all: Transition[] = [];
      for (let after: string | null = null; ;) {
        const { transitions: page }: { transitions: Page<Transition> } = await query(
          `query ($after: String) { transitions(first: 500, after: $after) { edges { node { ${TRANSITION} } } pageInfo { hasNextPage endCursor } } }`,
          { after },
        );
        all.push(...page.edges.map(({ node }) => node));
        if (!page.pageInfo.hasNextPage) return all;
        after = page.pageInfo.endCursor;
      }
    },
  };
}

interface Subscriber extends AsyncDisposable {
  /** Received transitions, in order. */
  readonly seen: readonly Transition[];
  /** The text of every message. */
  readonly messages: readonly string[];
  /** Number of connections so far. */
  connections(): number;
  reaches(count: number): Promise<void>;
}

/** Follows the log from its beginning over WebSocket; after a disconnect it resumes from the last cursor. */
function subscribe(service: Service): Subscriber {
  const seen: Transition[] = [];
  const messages: string[] = [];
  let connections = 0;
  let over = false;
  let disconnect = async () => {};
  const loop = (async () => {
    while (!over) {
      const client = createClient({
        url: service.url.replace("http", "ws"),
        webSocketImpl: WebSocket,
        retryAttempts: 0,
        on: {
          connected: () => void (connections += 1),
          message: (message) => void messages.push(JSON.stringify(message)),
        },
      });
      // Rejects while the client is connecting; nothing needs to be closed then.
      disconnect = () => Promise.resolve(client.dispose()).catch(() => undefined);
      try {
        const items = client.iterate<{ nodeTransitions: Transition & { readonly kind: string } }>({
          query: `subscription ($after: String) { nodeTransitions(after: $after) { kind: __typename ... on Transition { ${TRANSITION} } } }`,
          variables: { after: seen.at(-1)?.cursor ?? "0" },
        });
        for await (const { data } of items)
          if (data?.nodeTransitions.kind === "Transition") seen.push(data.nodeTransitions);
      } catch {
        // The service is restarting.
      }
      await disconnect();
      if (!over) await delay(100);
    }
  })();
  return {
    seen,
    messages,
    connections: () => connections,
    async reaches(count) {
      await eventually(`the subscriber has ${count} transitions`, () => seen.length >= count);
    },
    async [Symbol.asyncDispose]() {
      over = true;
      await disconnect();
      await loop;
    },
  };
}

// ---- the service

interface Service extends AsyncDisposable {
  /** Address of the API. */
  readonly url: string;
  readonly pid: number;
  start(): Promise<void>;
  /** Shuts it down with SIGTERM; returns its exit code. */
  end(): Promise<number | null>;
  kill(): Promise<void>;
  /** Output and log of all its processes so far. */
  output(): string;
  /** Every row of every table, as text. */
  rows(): Promise<readonly { readonly table: string; readonly row: string }[]>;
}

const START_MS = 60_000;
const END_MS = 15_000;

/** Runs the service in a separate process, with all its files in `folder`. */
function createService(folder: string): Service {
  const data = join(folder, "data");
  const temporary = join(folder, "tmp");
  const log = join(folder, "service.log");
  mkdirSync(temporary);
  let child: ChildProcess | undefined;
  let url = "";
  let starting: Promise<unknown> = Promise.resolve();
  const hasEnded = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null;
  const service: Service = {
    get url() {
      return url;
    },
    get pid() {
      return child?.pid ?? 0;
    },
    async start() {
      const output = openSync(log, "a");
      // A minimal environment. Temporary files of killed drivers stay in this folder.
      const env = {
        PATH: process.env["PATH"],
        TMPDIR: temporary,
        OSTLER_PLUGINS: "ipmi,fake",
        OSTLER_BMC_NETWORKS: "127.0.0.0/8",
        OSTLER_DATA: data,
        OSTLER_PORT: "0",
        OSTLER_LOG: "debug",
        OSTLER_POWER_SECONDS: "0",
      };
      // A separate process group: on Ctrl-C this program shuts the service down.
      const started = spawn(process.execPath, [fileURLToPath(new URL("../../src/main.ts", import.meta.url))], {
        env,
        stdio: ["ignore", "pipe", output],
        detached: true,
      });
      child = started;
      let printed = "";
      started.stdout?.setEncoding("utf8").on("data", (text: string) => {
        printed += text;
        writeSync(output, text);
      });
      started.once("close", () => closeSync(output));
      const readiness = eventually(
        "the service is ready",
        () => {
          if (hasEnded(started))
            throw new Error(
              `The service ended (${started.exitCode}) before it was ready: ${service.output().trim().slice(-500)}`,
            );
          return /ready: (\S+)/.exec(printed)?.[1];
        },
        START_MS,
      );
      starting = readiness;
      url = await readiness;
    },
    async end() {
      if (!child) return null;
      child.kill("SIGTERM");
      const ended = child;
      await eventually("the service has ended", () => hasEnded(ended), END_MS);
      return ended.exitCode;
    },
    async kill() {
      if (!child) return;
      child.kill("SIGKILL");
      const ended = child;
      await eventually("the service has ended", () => hasEnded(ended), END_MS);
    },
    output: () => readFileSync(log, "utf8"),
    async rows() {
      const sql = postgres({
        host: join(data, "postgres"),
        port: 5432,
        user: "ostler",
        database: "postgres",
        password:
          readFileSync(join(data, "postgres", "pgpass"), "utf8")
            .trim()
            .split(":")
            .at(-1) ?? "",
        max: 1,
        onnotice: () => {},
      });
      try {
        const tables = await sql<
          { schema: string; name: string }[]
        >`select schemaname as schema, tablename as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`;
        const rows: { table: string; row: string }[] = [];
        for (const { schema, name } of tables) {
          for (const { row } of await sql<{ row: string }[]>`select t::text as row from ${sql(schema)}.${sql(name)} t`)
            rows.push({ table: `${schema}.${name}`, row });
        }
        return rows;
      } finally {
        await sql.end();
      }
    },
    async [Symbol.asyncDispose]() {
      // Not during the creation of the database. A regular shutdown also ends all processes that write to the folder.
      await starting.catch(() => undefined);
      await service.end().catch(() => service.kill());
    },
  };
  return service;
}

// ---- child processes of the service

interface Spy extends Disposable {
  /** Every distinct command line of ipmitool seen so far. */
  commandLines(): readonly string[];
  /** Running ipmitool processes of this service and of killed ones, for one BMC or for all. */
  alive(bmc?: SimulatedBmc): readonly number[];
  /** Child processes. */
  childrenOf(pid: number): readonly number[];
}

const POLL_MS = 3;

/** Polls the ipmitool processes of the service and their command lines, which every user of the system can read. */
function watchChildren(service: Service): Spy {
  const lines = new Set<string>();
  const pids = new Map<number, string>();
  const read = (file: string): string => {
    try {
      return readFileSync(file, "latin1");
    } catch {
      // The process has ended.
      return "";
    }
  };
  const commandLine = (pid: number) => read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
  const isIpmitool = (line: string) => basename(line.split(" ")[0] ?? "") === "ipmitool";
  const childrenOf = (pid: number) =>
    read(`/proc/${pid}/task/${pid}/children`)
      .split(" ")
      .filter((word) => word !== "")
      .map(Number);
  const poll = () => {
    // Drivers run in child processes of the service.
    for (const pid of childrenOf(service.pid).flatMap((child) => [child, ...childrenOf(child)])) {
      const line = commandLine(pid);
      if (!isIpmitool(line)) continue;
      lines.add(line);
      pids.set(pid, line);
    }
  };
  const alive: Spy["alive"] = (bmc) => {
    poll();
    return [...pids]
      .filter(
        ([pid, line]) =>
          (bmc === undefined || line.includes(`-H ${bmc.address} -p ${bmc.port} `)) && commandLine(pid) === line,
      )
      .map(([pid]) => pid);
  };
  const timer = setInterval(poll, POLL_MS);
  return {
    commandLines: () => [...lines],
    alive,
    childrenOf,
    [Symbol.dispose]() {
      clearInterval(timer);
      // The ipmitool processes of a killed service continue until their calls time out.
      for (const pid of alive()) process.kill(pid, "SIGKILL");
    },
  };
}

// ---- start and end

async function main(parts: AsyncDisposableStack): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "ostler-hardware-"));
  parts.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  const lab: IpmiLab = parts.use(await startIpmiLab({ count: FLEET + 2 }));
  const machines = lab.bmcs.map((bmc, index) => ({ name: `rack1-u${String(index + 1).padStart(2, "0")}`, bmc }));
  const good = machines.slice(0, FLEET);
  const [locked, dead] = machines.slice(FLEET) as [Machine, Machine];
  dead.bmc.freeze();
  console.log(
    `     ${secondsSince(beginning).padStart(5)} s  ${lab.bmcs.length} simulated BMCs are running, one of them frozen`,
  );
  const service = parts.use(createService(folder));
  const spy = parts.use(watchChildren(service));
  await service.start();
  console.log(`     ${secondsSince(beginning).padStart(5)} s  the service is ready, database included`);
  const subscriber = parts.use(subscribe(service));
  await runAll({ good, locked, dead, service, api: createApi(service), subscriber, spy });
}

demandIpmiPrograms();

const parts = new AsyncDisposableStack();
const interrupted = new Promise<never>((_, reject) => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => reject(new Error(`interrupted by ${signal}`)));
});
try {
  await Promise.race([main(parts), interrupted]);
} catch (error) {
  check(error instanceof Error ? error.message : String(error), false);
}
await parts.disposeAsync().catch((error: unknown) => check(`everything is cleaned up: ${String(error)}`, false));
console.log(`\n${passed} passed, ${failed} failed`);
// Exit explicitly: after an interruption, promises can still be pending.
process.exit(failed === 0 ? 0 : 1);
