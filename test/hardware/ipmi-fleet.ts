/**
 * `npm run hardware`: the real job on the real protocol, done from outside as a user would. The service runs as a process
 * of its own with the drivers `ipmi` and `fake` and its embedded database; 22 simulated BMCs (ipmi_sim) answer ipmitool;
 * everything is asked for through GraphQL over HTTP and followed over a WebSocket. What happened is read where it
 * happened: in the power and the journal of each BMC, not in what the service says of it.
 *
 * Twenty nodes are good, one has a wrong password, one has a BMC that is dead. They are commissioned, switched, inspected,
 * failed, aborted, and commissioned again under `kill -9`; at last everything that was said is searched for passwords.
 *
 * Needs the Debian packages openipmi and ipmitool. Prints a line a check, with the seconds since the beginning, and ends
 * `N passed, N failed`; exit code 0 only if none failed. Leaves nothing behind, interrupted or not. About a minute.
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
import { missingIpmiPrograms, startIpmiLab } from "../support/ipmi-lab.ts";
import type { IpmiLab, SimulatedBmc } from "../support/ipmi-lab.ts";

const FLEET = 20;
const CLUSTER = "rack1";
/** 16 characters, so that nothing but a leak holds it. */
const WRONG_PASSWORD = "wrong-9c41f0ab77";
/** Every step of the driver `fake` takes that long, so that a kill finds work under way. */
const FAKE_SETTINGS = { delayMs: 50, waitSeconds: 0.2 };
/** What ipmi-lab.ts gives every BMC. */
const SENSORS = [
  { name: "Inlet temp", kind: "Temperature", value: 23, unit: "degrees C", status: "OK" },
  { name: "Cpu1 temp", kind: "Temperature", value: 51, unit: "degrees C", status: "OK" },
  { name: "Sys fan 1", kind: "Fan", value: 4800, unit: "RPM", status: "OK" },
  { name: "Supply 12v", kind: "Voltage", value: 12.06, unit: "Volts", status: "OK" },
] as const;

/** Settings with which a silent BMC is given up after 4 s; by default it takes 20. */
const IMPATIENT = { replySeconds: 1, sessionTries: 1 };

/** Bounds, in seconds, with room for a busy machine: quiet ones see a fifth of most. Less than a silent BMC is waited for. */
const LOGIN_REFUSED_MAX = 10;
/** The 30 s that one call may take, and what comes after it. */
const DEAD_BMC_MAX = 40;
const ABORT_MAX = 5;
/** Of a node whose power is to be cut, and whose BMC does not answer. */
const ABORT_IN_VAIN_MAX = 15;
/** A lease of 10 s, and those who look for leases that have run out. */
const TAKE_OVER_MAX = 20;
const WORK_MS = 60_000;

interface Machine {
  readonly name: string;
  readonly bmc: SimulatedBmc;
}

/** What the chapters of the story are told with. */
interface Stage {
  readonly good: readonly Machine[];
  readonly locked: Machine;
  readonly dead: Machine;
  readonly service: Service;
  readonly api: Api;
  readonly subscriber: Subscriber;
  readonly spy: Spy;
}

async function tell(stage: Stage): Promise<void> {
  await registersTheFleet(stage);
  await commissionsAllAtOnce(stage);
  await switchesPower(stage);
  await inspectsInPlace(stage);
  await failsOnTheBadNodesAlone(stage);
  await abortsOnBmcsThatHang(stage);
  await survivesKillMinusNine(stage);
  await hasToldEveryTransition(stage);
  await keepsItsSecrets(stage);
  await endsInOrder(stage);
}

// ---- the story

async function registersTheFleet({ good, locked, dead, api }: Stage): Promise<void> {
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
    "a password that IPMI cannot hold is refused, once, by name and not by value",
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
    "passwords are set and do not come back",
    nodes.length === FLEET + 2 &&
      nodes.every(
        ({ drivers: [own] }) =>
          own?.secretsSet.includes("password") === true && own.settings.ipmi?.["cipherSuite"] === 3,
      ),
  );
}

async function commissionsAllAtOnce({ good, api, subscriber }: Stage): Promise<void> {
  const operation = await api.work("commissionNodes", { nodes: { cluster: { name: CLUSTER } } });
  const ended = await api.end(operation);
  const nodes = await api.nodesOf(good);
  check(
    `one mutation commissions all ${FLEET}`,
    ended.state === "SUCCEEDED" && nodes.every(({ state }) => state === "ACTIVE"),
    `${ended.state}, ${secondsOf(ended)} s`,
  );
  check("every BMC has its machine on", await everyPower(good, "ON"));
  const journals = await Promise.all(good.map(eventsOf));
  check(
    "every BMC was told to start from the network, then to switch on, and nothing else",
    journals.every((events) => events.join() === "boot pxe,power on"),
    unlike(journals, "boot pxe,power on"),
  );
  check(
    "each inventory shows the serial number of its own BMC",
    nodes.every(({ inventory }, index) => inventory?.data["serial"] === good[index]?.bmc.serial),
    `${String(nodes[0]?.inventory?.data["serial"])} to ${String(nodes.at(-1)?.inventory?.data["serial"])}`,
  );
  const sensors = nodes.map(({ inventory }) => (inventory?.data["sensors"] ?? []) as readonly unknown[]);
  check(
    "and its temperatures, fan and voltage as the BMC has them",
    sensors.every((list) => SENSORS.every((wanted) => list.some((sensor) => isDeepStrictEqual(sensor, wanted)))),
    SENSORS.map(({ name, value, unit }) => `${name} ${value} ${unit}`).join(", "),
  );
  const all = await api.transitions();
  await subscriber.reaches(all.length);
  check(
    "the WebSocket subscriber saw every transition, in order, without a hole",
    subscriber.seen.map(({ cursor }) => cursor).join() === all.map(({ cursor }) => cursor).join() &&
      holes(subscriber.seen) === 0,
    `${subscriber.seen.length} of ${all.length}`,
  );
}

async function switchesPower({ good, api }: Stage): Promise<void> {
  const names = good.map(({ name }) => name);
  const set = async (action: string, only = names) =>
    api.end(await api.work("setPower", { nodes: { names: only }, action }));

  const off = await set("OFF");
  check(
    `setPower OFF: all ${FLEET} machines are off, by their BMCs`,
    off.state === "SUCCEEDED" && (await everyPower(good, "OFF")),
    `${secondsOf(off)} s`,
  );
  check(
    "and the nodes show it, ACTIVE as before",
    (await api.nodesOf(good)).every(({ state, powerState }) => state === "ACTIVE" && powerState === "OFF"),
  );

  const before = await Promise.all(good.map(eventsOf));
  const again = await set("OFF");
  const after = await Promise.all(good.map(eventsOf));
  check(
    "OFF again: success, and no BMC is told anything",
    again.state === "SUCCEEDED" && after.every((events, index) => events.length === before[index]?.length),
    `${secondsOf(again)} s`,
  );

  const on = await set("ON");
  check(
    `setPower ON: all ${FLEET} are on`,
    on.state === "SUCCEEDED" && (await everyPower(good, "ON")),
    `${secondsOf(on)} s`,
  );

  const [one] = good as [Machine];
  const told = (await eventsOf(one)).length;
  const reboot = await set("REBOOT", [one.name]);
  const events = (await eventsOf(one)).slice(told);
  check(
    "a reboot is off, then on",
    reboot.state === "SUCCEEDED" && events.join() === "power off,power on",
    `${events.join(", ")}; ${secondsOf(reboot)} s`,
  );
}

async function inspectsInPlace({ good, api }: Stage): Promise<void> {
  const before = await api.nodesOf(good);
  const ended = await api.end(await api.work("inspectNodes", { nodes: { cluster: { name: CLUSTER } } }));
  const after = await api.nodesOf(good);
  check(
    `all ${FLEET} are inspected while ACTIVE: no state changes, each has a newer inventory`,
    ended.state === "SUCCEEDED" &&
      after.every(
        ({ state, transitionCount, inventory }, index) =>
          state === "ACTIVE" &&
          transitionCount === before[index]?.transitionCount &&
          String(inventory?.takenAt) > String(before[index]?.inventory?.takenAt),
      ),
    `${secondsOf(ended)} s`,
  );
  check("and every machine is on as before", await everyPower(good, "ON"));
}

async function failsOnTheBadNodesAlone({ good, locked, dead, api }: Stage): Promise<void> {
  const left = await api.end(await api.work("decommissionNodes", { nodes: { cluster: { name: CLUSTER } } }));
  check(
    `all ${FLEET} are decommissioned, and off`,
    left.state === "SUCCEEDED" &&
      (await api.nodesOf(good)).every(({ state }) => state === "DECOMMISSIONED") &&
      (await everyPower(good, "OFF")),
    `${secondsOf(left)} s`,
  );

  const told = await Promise.all(good.map(eventsOf));
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
    "the good nodes are ACTIVE while the dead BMC is still being waited for",
    meanwhile.finishedAt === null,
    `${secondsSince(began)} s`,
  );

  const ended = await api.end(operation);
  const runs = new Map(ended.runs.map((run) => [run.nodeName, run]));
  const refused = runs.get(locked.name);
  const silent = runs.get(dead.name);
  const failed = ended.runs.filter(({ state }) => state === "FAILED").map(({ nodeName }) => nodeName);
  check(
    "two nodes failed, and they are the bad ones",
    ended.state === "PARTIALLY_SUCCEEDED" && failed.join() === [locked.name, dead.name].join(),
    `${ended.state}: ${failed.join(", ")}`,
  );
  check(
    "the wrong password is told as such, at once",
    /refuses the login/.test(refused?.failure?.message ?? "") &&
      refused?.failure?.retryable === false &&
      Number(secondsOf(refused)) < LOGIN_REFUSED_MAX,
    described(refused),
  );
  check(
    `the dead BMC is told as such, within ${DEAD_BMC_MAX} s`,
    /does not answer/.test(silent?.failure?.message ?? "") &&
      silent?.failure?.code === "TIMEOUT" &&
      silent.failure.retryable &&
      Number(secondsOf(silent)) < DEAD_BMC_MAX,
    described(silent),
  );
  const bad = await api.nodesOf([locked, dead]);
  check(
    "both are ENROLLED again and say why",
    bad.every(({ state, lastError }) => state === "ENROLLED" && lastError !== null) &&
      (await eventsOf(locked)).length === 0,
    bad.map(({ lastError }) => lastError?.code).join(", "),
  );
  const journals = (await Promise.all(good.map(eventsOf))).map((events, index) => events.slice(told[index]?.length));
  check(
    "the good ones are unharmed: switched on once, and on",
    (await everyPower(good, "ON")) && journals.every((events) => events.join() === "boot pxe,power on"),
    unlike(journals, "boot pxe,power on"),
  );

  const [lockedNode, deadNode] = bad;
  const update = async (input: unknown) =>
    (
      await api.query<{ updateNode: { errors: Refusal[] } }>(
        "mutation ($input: UpdateNodeInput!) { updateNode(input: $input) { errors { code message } } }",
        { input },
      )
    ).updateNode.errors;
  const refusals = await update({ id: lockedNode?.id, driver: { ipmi: { password: locked.bmc.password } } });
  // Without its password: a secret that is left out stays.
  refusals.push(...(await update({ id: deadNode?.id, driver: { ipmi: IMPATIENT } })));
  dead.bmc.thaw();
  const repaired = await api.end(await api.work("commissionNodes", { nodes: { names: [locked.name, dead.name] } }));
  check(
    "the password corrected, the BMC back: both commission to ACTIVE",
    refusals.length === 0 &&
      repaired.state === "SUCCEEDED" &&
      (await api.nodesOf([locked, dead])).every(({ state, lastError }) => state === "ACTIVE" && lastError === null) &&
      (await everyPower([locked, dead], "ON")),
    `${repaired.state}, ${secondsOf(repaired)} s`,
  );
}

async function abortsOnBmcsThatHang({ good, dead, api, spy }: Stage): Promise<void> {
  const [first, second] = good as [Machine, Machine];
  const abort = async (machine: Machine, operation: string) => {
    const began = Date.now();
    const { abort: answer } = await api.query<{
      abort: { errors: readonly Refusal[]; results: readonly { accepted: boolean; abortEffect: string | null }[] };
    }>(
      "mutation ($input: AbortInput!) { abort(input: $input) { errors { code message } results { accepted abortEffect } } }",
      { input: { work: { names: [machine.name] }, reason: "its BMC hangs" } },
    );
    const ended = await api.end(operation);
    const seconds = (Date.now() - began) / 1000;
    await eventually("its ipmitool is gone", () => spy.alive(machine.bmc).length === 0, 2_000);
    return { ended, run: ended.runs[0], seconds, effect: answer.results[0]?.abortEffect };
  };

  first.bmc.freeze();
  const inspection = await api.work("inspectNodes", { nodes: { names: [first.name] } });
  await eventually("ipmitool asks the frozen BMC", () => spy.alive(first.bmc).length > 0);
  await delay(300);
  const inspected = await abort(first, inspection);
  check(
    `an inspection that a BMC hangs in is aborted within ${ABORT_MAX} s`,
    inspected.ended.state === "ABORTED" && inspected.effect === "NOW" && inspected.seconds < ABORT_MAX,
    `${inspected.ended.state}, ${inspected.seconds} s`,
  );
  first.bmc.thaw();
  const again = await api.end(await api.work("inspectNodes", { nodes: { names: [first.name] } }));
  const [node] = await api.nodesOf([first]);
  check(
    "the node is ACTIVE as before, and is inspected once its BMC is back",
    again.state === "SUCCEEDED" && node?.state === "ACTIVE" && node.lastError === null,
    `${secondsOf(again)} s`,
  );

  const told = (await eventsOf(second)).length;
  await second.bmc.setDelay(0.5);
  const reboot = await api.work("setPower", { nodes: { names: [second.name] }, action: "REBOOT" });
  await eventually("the reboot has cut the power", async () =>
    (await eventsOf(second)).slice(told).includes("power off"),
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
  const events = (await eventsOf(second)).slice(told);
  check(
    "nothing of it goes on behind the abort: the machine stays off",
    (await second.bmc.power()) === "OFF" && !events.includes("power on"),
    events.join(", "),
  );
  const on = await api.end(await api.work("setPower", { nodes: { names: [second.name] }, action: "ON" }));
  check(
    "and setPower ON has it back",
    on.state === "SUCCEEDED" && (await second.bmc.power()) === "ON",
    `${secondsOf(on)} s`,
  );

  await api.end(await api.work("decommissionNodes", { nodes: { names: [dead.name] } }));
  const commission = await api.work("commissionNodes", { nodes: { names: [dead.name] } });
  await eventually("it is being deployed", async () => (await api.nodesOf([dead]))[0]?.state === "DEPLOYING");
  dead.bmc.freeze();
  const cut = await abort(dead, commission);
  const [left] = await api.nodesOf([dead]);
  check(
    `a deployment is aborted within ${ABORT_IN_VAIN_MAX} s although its BMC hangs, and says that the power was not cut`,
    cut.ended.state === "ABORTED" &&
      left?.state === "DEPLOY_FAILED" &&
      cut.run?.leftAs?.power === "UNKNOWN" &&
      /does not answer/.test(cut.run.leftAs.tearDownError ?? "") &&
      cut.seconds < ABORT_IN_VAIN_MAX,
    `${cut.seconds} s; ${cut.run?.leftAs?.tearDownError}`,
  );
  dead.bmc.thaw();
  const restarted = await api.end(await api.work("restart", { work: { names: [dead.name] } }));
  check(
    "its BMC back, a restart brings it to ACTIVE",
    restarted.state === "SUCCEEDED" &&
      (await api.nodesOf([dead]))[0]?.state === "ACTIVE" &&
      (await everyPower([dead], "ON")),
    `${secondsOf(restarted)} s`,
  );
}

async function survivesKillMinusNine({ good, api, service, spy }: Stage): Promise<void> {
  await api.end(await api.work("decommissionNodes", { nodes: { cluster: { name: CLUSTER } } }));
  // Few at a time, and some BMCs slower than others, so that the kill finds nodes everywhere and an ipmitool at work.
  await Promise.all(good.map(({ bmc }, index) => bmc.setDelay((index % 10) * 0.1)));
  const told = await Promise.all(good.map(eventsOf));
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
  const inFlight = await eventually("ipmitool is at work", () => spy.alive().length > 0 && spy.alive().length);
  const last = service.pid;
  await service.kill();
  const killed = Date.now();
  const census = [...found].map(([state, list]) => `${list.length} ${state}`).join(", ");
  check(
    "kill -9 comes in the middle of a commission",
    (found.get("ACTIVE")?.length ?? 0) < FLEET && found.size > 2,
    `${census}; ${inFlight} ipmitool`,
  );

  await service.start();
  const ready = secondsSince(killed);
  const ended = await api.end(operation);
  check(
    `started again, it brings all ${FLEET} to ACTIVE`,
    ended.state === "SUCCEEDED" && (await api.nodesOf(good)).every(({ state }) => state === "ACTIVE"),
    `${ended.state}; ready after ${ready} s, done after ${secondsSince(killed)} s`,
  );
  check("every machine is on", await everyPower(good, "ON"));
  const journals = (await Promise.all(good.map(eventsOf))).map((events, index) => events.slice(told[index]?.length));
  check(
    "and none was switched off on the way",
    journals.every((events) => !events.includes("power off") && events.at(-1) === "power on"),
    journals.find((events) => events.includes("power off"))?.join(", "),
  );
  const recovered = (await api.transitions()).filter(({ event }) => event === "recover");
  const seconds = recovered.map(({ at }) => (Date.parse(at) - killed) / 1000);
  check(
    `what was under way is taken up again within ${TAKE_OVER_MAX} s, and says so`,
    seconds.length > 0 && Math.max(...seconds) < TAKE_OVER_MAX,
    `${seconds.length} recovered, ${Math.min(...seconds).toFixed(1)} to ${Math.max(...seconds).toFixed(1)} s after the kill`,
  );
  check(
    "the ipmitools of the killed process have ended",
    spy.childrenOf(last).length === 0 && spy.alive().length === 0,
  );
  await Promise.all(good.map(({ bmc }) => bmc.setDelay(0)));
}

async function hasToldEveryTransition({ api, subscriber }: Stage): Promise<void> {
  const all = await api.transitions();
  await subscriber.reaches(all.length);
  check(
    "the subscriber missed nothing and saw nothing twice, the kill included",
    holes(subscriber.seen) === 0 && subscriber.seen.length === all.length,
    `${subscriber.seen.length} of ${all.length}, ${subscriber.connections()} connections`,
  );
  const last = new Map<string, Transition>();
  const broken = subscriber.seen.filter((transition) => {
    const before = last.get(transition.nodeName);
    last.set(transition.nodeName, transition);
    return transition.from !== (before?.to ?? null) || transition.sequence !== (before?.sequence ?? 0) + 1;
  });
  check(
    "each node's transitions join end to end, up to its state",
    broken.length === 0 &&
      (await api.nodes()).every(
        ({ name, state, transitionCount }) =>
          last.get(name)?.to === state && last.get(name)?.sequence === transitionCount,
      ),
  );
}

async function keepsItsSecrets({ good, service, api, subscriber, spy }: Stage): Promise<void> {
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
  search("the API's answers", api.answers, api.answers.length > 100);
  search("the subscription's messages", subscriber.messages, subscriber.messages.length > 100);
  search("the command lines of its ipmitools", spy.commandLines(), spy.commandLines().length > 50);
  const rows = await service.rows();
  const secret = rows.filter(({ table }) => table === "public.node_secrets");
  check(
    "passwords are in the table node_secrets",
    leaks(secret.map(({ row }) => row)).length === FLEET + 2,
    `${secret.length} rows`,
  );
  search(
    "any other table",
    rows.filter((row) => !secret.includes(row)).map(({ table, row }) => `${table} ${row}`),
    rows.length > 500,
  );
}

async function endsInOrder({ service, spy }: Stage): Promise<void> {
  const { pid } = service;
  const began = Date.now();
  const code = await service.end();
  check(
    "told to end, the service does",
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

/** How many of the transitions do not have the position after that of the one before; the log begins at 1. */
function holes(transitions: readonly Transition[]): number {
  return transitions.filter(({ cursor }, index) => Number(cursor) !== index + 1).length;
}

async function everyPower(machines: readonly Machine[], wanted: "ON" | "OFF"): Promise<boolean> {
  return (await Promise.all(machines.map(({ bmc }) => bmc.power()))).every((power) => power === wanted);
}

async function eventsOf({ bmc }: Machine): Promise<readonly string[]> {
  return (await bmc.journal()).map(({ event }) => event);
}

/** The first journal that is not as it should be, for the line of a failed check. */
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
  /** In what condition an abort left the node. */
  readonly leftAs: { readonly power: string; readonly tearDownError: string | null } | null;
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

const INPUT_TYPES = {
  commissionNodes: "CommissionNodesInput",
  decommissionNodes: "DecommissionNodesInput",
  inspectNodes: "NodeWorkInput",
  setPower: "SetPowerInput",
  restart: "RestartInput",
} as const;
const NODE =
  "id name state powerState transitionCount lastError { code message retryable } inventory { takenAt data } drivers { name settings { ipmi { address cipherSuite } } secretsSet }";
const TRANSITION = "cursor nodeName sequence from to event at";

interface Api {
  /** Every answer as it came. */
  readonly answers: readonly string[];
  query<Data>(text: string, variables?: Readonly<Record<string, unknown>>): Promise<Data>;
  /** Asks for work; answers the operation. Throws what it was refused with. */
  work(verb: keyof typeof INPUT_TYPES, input: Readonly<Record<string, unknown>>): Promise<string>;
  operation(id: string): Promise<Operation>;
  /** Waits for the end of an operation. */
  end(id: string): Promise<Operation>;
  nodes(): Promise<readonly Node[]>;
  /** In the order asked. */
  nodesOf(machines: readonly Machine[]): Promise<readonly Node[]>;
  transitions(): Promise<readonly Transition[]>;
}

function createApi(service: Service): Api {
  const answers: string[] = [];
  const query = <Data>(text: string, variables: Readonly<Record<string, unknown>> = {}): Promise<Data> =>
    ask<Data>(service.url, text, { variables, onAnswer: (answer) => answers.push(answer) });
  const operation = async (id: string): Promise<Operation> => {
    const { operation: found } = await query<{ operation: Omit<Operation, "runs"> & { readonly runs: Page<Run> } }>(
      "query ($id: ID!) { operation(id: $id) { state startedAt finishedAt runs(first: 100) { edges { node { nodeName state startedAt finishedAt failure { code message retryable } leftAs { power tearDownError } } } } } }",
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
        `mutation ($input: ${INPUT_TYPES[verb]}!) { ${verb}(input: $input) { operation { uuid } errors { code message } } }`,
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
  /** What came, in the order it came. */
  readonly seen: readonly Transition[];
  /** Every message as it came. */
  readonly messages: readonly string[];
  /** How often it had to connect. */
  connections(): number;
  reaches(count: number): Promise<void>;
}

/** Follows the log from its beginning over WebSocket; after a break it goes on from the last cursor. */
function subscribe(service: Service): Subscriber {
  const seen: Transition[] = [];
  const messages: string[] = [];
  let connections = 0;
  let over = false;
  let leave = async () => {};
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
      // Rejects where it was just connecting, and then there is nothing to leave.
      leave = () => Promise.resolve(client.dispose()).catch(() => undefined);
      try {
        const items = client.iterate<{ nodeTransitions: Transition & { readonly kind: string } }>({
          query: `subscription ($after: String) { nodeTransitions(after: $after) { kind: __typename ... on Transition { ${TRANSITION} } } }`,
          variables: { after: seen.at(-1)?.cursor ?? "0" },
        });
        for await (const { data } of items)
          if (data?.nodeTransitions.kind === "Transition") seen.push(data.nodeTransitions);
      } catch {
        // The service is away: there is a new one soon.
      }
      await leave();
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
      await leave();
      await loop;
    },
  };
}

// ---- the service

interface Service extends AsyncDisposable {
  /** Of the API. */
  readonly url: string;
  readonly pid: number;
  start(): Promise<void>;
  /** Tells it to end; answers its exit code. */
  end(): Promise<number | null>;
  kill(): Promise<void>;
  /** All that it printed, logs included, of every start. */
  output(): string;
  /** Every row of every table, as text. */
  rows(): Promise<readonly { readonly table: string; readonly row: string }[]>;
}

const START_MS = 60_000;
const END_MS = 15_000;

/** The service as its own process, with all its files in `folder`. */
function createService(folder: string): Service {
  const data = join(folder, "data");
  const temporary = join(folder, "tmp");
  const log = join(folder, "service.log");
  mkdirSync(temporary);
  let child: ChildProcess | undefined;
  let url = "";
  let starting: Promise<unknown> = Promise.resolve();
  const isGone = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null;
  const service: Service = {
    get url() {
      return url;
    },
    get pid() {
      return child?.pid ?? 0;
    },
    async start() {
      const output = openSync(log, "a");
      // Nothing of ours but what it needs; what its drivers leave when they are killed stays in our folder.
      const env = {
        PATH: process.env["PATH"],
        TMPDIR: temporary,
        OSTLER_PLUGINS: "ipmi,fake",
        OSTLER_DATA: data,
        OSTLER_PORT: "0",
        OSTLER_LOG: "debug",
        OSTLER_POWER_SECONDS: "0",
      };
      // In a group of its own: Ctrl-C is for us, and we end it in order.
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
          if (isGone(started))
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
      await eventually("the service has ended", () => isGone(ended), END_MS);
      return ended.exitCode;
    },
    async kill() {
      if (!child) return;
      child.kill("SIGKILL");
      const ended = child;
      await eventually("the service is gone", () => isGone(ended), END_MS);
    },
    output: () => readFileSync(log, "utf8"),
    async rows() {
      const sql = postgres({
        host: join(data, "postgres"),
        port: 5432,
        user: "ostler",
        database: "postgres",
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
      // Never in the middle of setting up the database, and in order if possible: then nobody writes to the folder any more.
      await starting.catch(() => undefined);
      await service.end().catch(() => service.kill());
    },
  };
  return service;
}

// ---- what the system shows of its children

interface Spy extends Disposable {
  /** Every command line of an ipmitool that was seen, once. */
  commandLines(): readonly string[];
  /** Processes of the ipmitools that are there now, of the service as it is and as it was, for one BMC or all. */
  alive(bmc?: SimulatedBmc): readonly number[];
  /** Processes whose parent is this one. */
  childrenOf(pid: number): readonly number[];
}

const LOOK_EVERY_MS = 3;

/** Looks all the time which ipmitools the service runs, and what anybody on the machine can read of them. */
function watchChildren(service: Service): Spy {
  const lines = new Set<string>();
  const pids = new Map<number, string>();
  const read = (file: string): string => {
    try {
      return readFileSync(file, "latin1");
    } catch {
      // It has ended meanwhile.
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
  const look = () => {
    // Drivers run in processes of their own, which the service has started.
    for (const pid of childrenOf(service.pid).flatMap((child) => [child, ...childrenOf(child)])) {
      const line = commandLine(pid);
      if (!isIpmitool(line)) continue;
      lines.add(line);
      pids.set(pid, line);
    }
  };
  const alive: Spy["alive"] = (bmc) => {
    look();
    return [...pids]
      .filter(
        ([pid, line]) =>
          (bmc === undefined || line.includes(`-H ${bmc.address} -p ${bmc.port} `)) && commandLine(pid) === line,
      )
      .map(([pid]) => pid);
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return {
    commandLines: () => [...lines],
    alive,
    childrenOf,
    [Symbol.dispose]() {
      clearInterval(timer);
      // Those of a service that was killed outlive it, for as long as their BMC is waited for.
      for (const pid of alive()) process.kill(pid, "SIGKILL");
    },
  };
}

// ---- beginning and end

async function main(parts: AsyncDisposableStack): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "ostler-hardware-"));
  parts.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  const lab: IpmiLab = parts.use(await startIpmiLab({ count: FLEET + 2 }));
  const machines = lab.bmcs.map((bmc, index) => ({ name: `rack1-u${String(index + 1).padStart(2, "0")}`, bmc }));
  const good = machines.slice(0, FLEET);
  const [locked, dead] = machines.slice(FLEET) as [Machine, Machine];
  dead.bmc.freeze();
  console.log(
    `     ${secondsSince(beginning).padStart(5)} s  ${lab.bmcs.length} simulated BMCs answer, one of them no more`,
  );
  const service = parts.use(createService(folder));
  const spy = parts.use(watchChildren(service));
  await service.start();
  console.log(`     ${secondsSince(beginning).padStart(5)} s  the service is ready, database included`);
  const subscriber = parts.use(subscribe(service));
  await tell({ good, locked, dead, service, api: createApi(service), subscriber, spy });
}

const missing = missingIpmiPrograms();
if (missing.length > 0) {
  console.error(
    `This needs ${missing.map(({ program }) => program).join(", ")}; install the Debian packages: apt-get install --no-install-recommends ${[...new Set(missing.map((each) => each.package))].join(" ")}`,
  );
  process.exit(1);
}

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
// Whatever an interruption has left waiting goes with the process.
process.exit(failed === 0 ? 0 : 1);
