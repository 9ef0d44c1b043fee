/**
 * The contacts of an agent: its polls and its results.
 *
 * The first contact fixes which agent has the session; a second one with the same secret is refused, counted and
 * recorded. A result is stored in one transaction with the callback of the step, so that it is taken once, however
 * often the agent repeats it.
 */
import { randomUUID } from "node:crypto";
import type { AgentResult } from "../../drivers/driver.ts";
import {
  agentSessionById,
  closeAgentSession,
  countStranger,
  endTask,
  fixAgent,
  noteSeen,
} from "../../store/runs/agent-sessions.ts";
import type { AgentSessionView } from "../../store/runs/agent-sessions.ts";
import { attemptsUnderWay, updateAttempt } from "../../store/runs/attempts.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import type { AgentIdentity, StoredJson, StoredTask } from "../../store/records.ts";
import { recordRejectedCallback } from "../../store/runs/rejected-callbacks.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import { decrypted, SECRETS, secretsOf } from "../../store/secrets/secrets.ts";
import { lockRun } from "../../store/runs/run-locks.ts";
import { updateRuns } from "../../store/runs/runs.ts";
import { LruMap } from "../../runtime/lru-map.ts";
import { cutTo, plainText } from "../../runtime/text.ts";
import { REJECTED_MAX, deliverCallback } from "../execution/boundary/callback.ts";
import { AGENT_PROTOCOL } from "../input/agent-media.ts";
import { createRedactor } from "../input/secret-redactor.ts";
import type { Redactor } from "../input/secret-redactor.ts";
import { authenticated, macOfOtherNode } from "./agent-parts.ts";
import type { AgentParts } from "./agent-parts.ts";
import type { AgentOrder, AgentReport, Bearer, NoAgent, ResultAnswer } from "./agents.ts";
import { IDLE_SECONDS, currentTask, orderFor } from "./orders.ts";
import { taskSecrets } from "./task-secrets.ts";

/** A contact is stored if the stored one is older. */
const SEEN_EVERY_SECONDS = 5;
const PROGRESS_EVERY_MS = 1_000;
const MESSAGE_LENGTH_MAX = 1_000;
const TEXT_LENGTH_MAX = 200;
const MACS_MAX = 64;
/** Requests of strangers that are recorded and logged for a session; further ones are only counted. */
const STRANGERS_RECORDED = 5;
/** Sessions of which this process remembers the progress that it stored last. */
const PROGRESSES_KEPT = 20_000;

interface StoredProgress {
  readonly at: number;
  readonly text: string;
}

export class AgentContacts {
  readonly #parts: AgentParts;
  readonly #progresses = new LruMap<string, StoredProgress>(PROGRESSES_KEPT);

  constructor(parts: AgentParts) {
    this.#parts = parts;
  }

  async poll(bearer: Bearer, report: AgentReport): Promise<AgentOrder | NoAgent> {
    const view = await authenticated(this.#parts, bearer);
    if (!view) return "UNKNOWN";
    if (view.isOver) return orderFor(view, report);
    if (report.protocol !== AGENT_PROTOCOL) {
      this.#warn(view, { version: report.version, protocol: report.protocol }, "has another version of the protocol");
      return { do: "power_off" };
    }
    const { session } = view;
    if (session.instance === null) {
      if (!(await this.#meet(view, report))) return this.poll(bearer, report);
    } else if (session.instance !== report.instance) return this.#refuseStranger(view, report.address);
    else if ((view.silentSeconds ?? 0) > SEEN_EVERY_SECONDS)
      await this.#parts.transact(({ tx }) => noteSeen(tx, session.id, identityOf(report)));
    await this.#noteProgress(view, bearer, report);
    if (session.task && !currentTask(view)) await this.#dropTask(view, session.task);
    return this.#opened(view, orderFor(view, report));
  }

  /** The order with the arguments of its task. If they cannot be read, the step gets the reason as its result. */
  async #opened(view: AgentSessionView, order: AgentOrder): Promise<AgentOrder> {
    const { session, run } = view;
    if (order.do !== "task" || !session.task) return order;
    const task = await this.#openedTask(this.#parts.reader, session.id, session.task);
    if (!(task instanceof SecretError)) return { ...order, task: { ...order.task, args: task.args } };
    const { id, key } = session.task;
    await this.#parts.transact(async (transaction) => {
      const { tx } = transaction;
      const locked = await lockRun(tx, run.id);
      if (!locked || (await agentSessionById(tx, session.id))?.session.task?.id !== id) return;
      await deliverCallback(transaction, locked, unreadable(id, task));
      await endTask(tx, session.id, { id, key });
    });
    return { do: "wait", seconds: IDLE_SECONDS };
  }

  async result(bearer: Bearer, instance: string, result: AgentResult): Promise<ResultAnswer> {
    const view = await authenticated(this.#parts, bearer);
    if (!view) return "UNKNOWN";
    if (view.session.instance !== instance) return this.#refuseStranger(view, null);
    return this.#parts.transact(async (transaction) => {
      const { tx } = transaction;
      const run = await lockRun(tx, view.run.id);
      const now = await agentSessionById(tx, view.session.id);
      if (!run || !now) return "UNKNOWN";
      if (now.session.lastTask?.id === result.task) return "TAKEN";
      const task = currentTask(now);
      if (task?.id !== result.task) return "NOT_CURRENT";
      const redactor = await this.#redactorOf(tx, now, bearer, task);
      // Without its secrets nothing can be masked in it.
      const body =
        redactor instanceof SecretError
          ? unreadable(task.id, redactor)
          : redactor.json(JSON.parse(JSON.stringify(result)) as StoredJson);
      if (!(await deliverCallback(transaction, run, body))) return "RETRY";
      await endTask(tx, now.session.id, { id: task.id, key: task.key });
      return "TAKEN";
    });
  }

  /** The first contact. False: another agent, or another request of this one, was faster, or the session was ended. */
  #meet({ session, run }: AgentSessionView, report: AgentReport): Promise<boolean> {
    return this.#parts.transact(async (transaction) => {
      const { tx } = transaction;
      const locked = await lockRun(tx, run.id);
      const agent = identityOf(report);
      if (!(await fixAgent(tx, session.id, report.instance, agent))) return false;
      // Read under the lock: a step that has assigned a task meanwhile waits for its result, not for the contact.
      const now = await agentSessionById(tx, session.id);
      const other = await macOfOtherNode(tx, session.nodeId, agent.macs);
      if (other) await closeAgentSession(tx, run.id);
      if (locked && (other || now?.session.task === null)) await deliverCallback(transaction, locked, CONTACT);
      if (other) return false;
      transaction.afterCommit(() =>
        this.#parts.log.info(
          { node: run.nodeName, runId: run.id, session: session.id, version: report.version },
          `the agent of node ${run.nodeName} has reported`,
        ),
      );
      return true;
    });
  }

  async #refuseStranger(view: AgentSessionView, address: string | null): Promise<"STRANGER"> {
    const { session, run } = view;
    await this.#parts.transact(async (transaction) => {
      const strangers = await countStranger(transaction.tx, session.id);
      if (strangers > STRANGERS_RECORDED) return;
      const rejected = { id: randomUUID(), runId: run.id, kind: "STRANGER", step: null } as const;
      await recordRejectedCallback(transaction.tx, rejected, REJECTED_MAX);
      const what = "was contacted with its secret by a second agent, which is refused";
      transaction.afterCommit(() => this.#warn(view, { address, strangers }, what));
    });
    return "STRANGER";
  }

  #warn({ session, run }: AgentSessionView, about: object, what: string): void {
    this.#parts.log.warn(
      { node: run.nodeName, runId: run.id, operationId: run.operationId, session: session.id, ...about },
      `the agent session of node ${run.nodeName} ${what}`,
    );
  }

  /** Stores the progress of a task as that of its attempt, whether or not a process holds the step. */
  async #noteProgress(view: AgentSessionView, bearer: Bearer, { task: reported }: AgentReport): Promise<void> {
    const task = currentTask(view);
    if (!reported || reported.id !== task?.id) return;
    const percent = Math.round(Math.min(100, Math.max(0, Number.isFinite(reported.percent) ? reported.percent : 0)));
    const text = JSON.stringify([task.id, percent, reported.message]);
    const last = this.#progresses.get(view.session.id);
    const now = performance.now();
    if (last && (last.text === text || now - last.at < PROGRESS_EVERY_MS)) return;
    this.#progresses.set(view.session.id, { at: now, text });
    await this.#parts.transact(async ({ tx }) => {
      const run = await lockRun(tx, view.run.id);
      const attempt = run && (await attemptsUnderWay(tx, [run.id])).get(run.id);
      if (!run || run.finishedAt !== null || attempt?.step !== task.step || attempt.number !== task.attempt) return;
      const redactor = await this.#redactorOf(tx, view, bearer, task);
      const isShown = reported.message !== null && !(redactor instanceof SecretError);
      const message = isShown ? cutTo(redactor.text(reported.message), MESSAGE_LENGTH_MAX) : null;
      await updateAttempt(tx, attempt, { progressPercent: percent, progressMessage: message });
      await updateRuns(tx, run.id, {});
    });
  }

  /** Masks the secrets of the node, of the session and of the task; an error if they cannot be read. */
  async #redactorOf(
    tx: Tx,
    { session: { id, nodeId } }: AgentSessionView,
    { secret }: Bearer,
    task: StoredTask,
  ): Promise<Redactor | SecretError> {
    const ofNode = (await secretsOf(tx, this.#parts.keyring, SECRETS.ofNodes, [nodeId])).get(nodeId) ?? {};
    const opened = await this.#openedTask(tx, id, task);
    if (ofNode instanceof SecretError) return ofNode;
    if (opened instanceof SecretError) return opened;
    const texts = Object.values(ofNode).flatMap((fields) => Object.values(fields));
    return createRedactor([...texts, secret, ...taskSecrets(opened.args)]);
  }

  /** A task with its arguments. */
  async #openedTask(reader: Reader, id: string, task: StoredTask): Promise<StoredTask | SecretError> {
    return (await decrypted(reader, this.#parts.keyring, SECRETS.agentTasks, [[id, task]])).get(id) ?? task;
  }

  /** Removes a task that nothing waits for any more, with its arguments. */
  async #dropTask({ session, run }: AgentSessionView, task: StoredTask): Promise<void> {
    await this.#parts.transact(async ({ tx }) => {
      await lockRun(tx, run.id);
      const now = await agentSessionById(tx, session.id);
      if (now?.session.task?.id === task.id && !currentTask(now)) await endTask(tx, session.id);
    });
  }
}

/** The result of a task whose secrets cannot be read. */
function unreadable(task: string, { message }: SecretError): StoredJson {
  return { task, ok: false, error: { code: "SECRET_UNREADABLE", message, retryable: false } };
}

/** Ends the wait of a step for the first contact. */
const CONTACT: StoredJson = { contact: true };

function identityOf({ version, architecture, bootMode, address, macs, disks }: AgentReport): AgentIdentity {
  const short = (text: string) => cutTo(plainText(text), TEXT_LENGTH_MAX);
  return {
    version: short(version),
    architecture,
    bootMode,
    address: short(address),
    macs: macs.slice(0, MACS_MAX).map(short),
    ...(disks !== undefined && { disks }),
  };
}
