/** Rows of the audit: who asks for what, and how it ended. Texts are cut, and have no control characters. */
import { userInfo } from "node:os";
import type { AuditChange, AuditEdit, AuditOutcome } from "../../store/log/audit-records.ts";
import type { NewAuditRow } from "../../store/log/audit.ts";
import { cutTo, plainText } from "../../runtime/text.ts";
import { withoutCredentials } from "./edits.ts";

/** The facts of a request that are known when it begins. A member is absent without a request. */
export interface AuditedRequest
  extends
    Pick<NewAuditRow, "subject" | "action">,
    Partial<Pick<NewAuditRow, "displayName" | "credential" | "address" | "transport" | "requestId" | "document">> {
  /** The reason that it gives. */
  readonly reason?: string | undefined;
}

/** The effect of a request. */
export interface AuditedEffect {
  /** Names of what it was done to. */
  readonly targets?: readonly string[] | undefined;
  /** The first one, if there are several. */
  readonly operationId?: string | null | undefined;
  /** The first ones, `EDITS_MAX` of them are enough. */
  readonly edits?: readonly AuditEdit[] | undefined;
}

/** How a request ended. */
export interface AuditedEnd extends AuditedEffect {
  readonly outcome: AuditOutcome;
  readonly code?: string | undefined;
  /** Why it did not take effect; absent: the reason that the request gives. */
  readonly reason?: string | undefined;
}

/** A request, and whether its row is written. */
export interface AuditRecord {
  readonly request: AuditedRequest;
  isWritten: boolean;
}

const TARGETS_MAX = 100;
const TARGET_LENGTH_MAX = 300;
const TEXT_LENGTH_MAX = 2_000;
/** A secret at the end of a text is seen whole before the text is cut. */
const SECRET_LENGTH_MAX = 2_000;
const CHANGE_BYTES_MAX = 16 * 1024;

/** A command in a shell, by the user of the system. */
export function shellRequest(action: string): AuditedRequest {
  return { subject: "shell", action, displayName: nameOfUser() };
}

function nameOfUser(): string | null {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a user without a name.
    return null;
  }
}

export function auditRow(request: AuditedRequest, end: AuditedEnd): NewAuditRow {
  const { subject, action, displayName, credential, address, transport = "NONE", requestId, document } = request;
  const { targets = [], operationId = null, edits = [], outcome, code = null, reason = request.reason } = end;
  return {
    subject: fit(subject),
    displayName: fitOrNull(displayName),
    credential: credential ?? null,
    address: address ?? null,
    transport,
    requestId: fitOrNull(requestId),
    document: document ?? null,
    action,
    targets: targets.slice(0, TARGETS_MAX).map((name) => fit(name, TARGET_LENGTH_MAX)),
    targetCount: targets.length,
    operationId,
    outcome,
    code,
    reason: fitOrNull(reason),
    change: edits.length === 0 ? null : changeOf(edits),
    projects: null,
  };
}

/** The effects of one request, of which each part notes its own. */
export function joined(one: AuditedEffect | undefined, other: AuditedEffect): AuditedEffect {
  if (!one) return other;
  return {
    targets: [...new Set([...(one.targets ?? []), ...(other.targets ?? [])])],
    operationId: one.operationId ?? other.operationId,
    edits: [...(one.edits ?? []), ...(other.edits ?? [])],
  };
}

function changeOf(edits: readonly AuditEdit[]): AuditChange {
  const kept: AuditEdit[] = [];
  let bytes = 0;
  for (const edit of edits.slice(0, TARGETS_MAX)) {
    bytes += Buffer.byteLength(JSON.stringify(edit));
    if (bytes > CHANGE_BYTES_MAX) break;
    kept.push(edit);
  }
  return { edits: kept, complete: kept.length === edits.length };
}

function fit(text: string, length = TEXT_LENGTH_MAX): string {
  const shown = plainText(cutTo(text, length + SECRET_LENGTH_MAX));
  return cutTo(withoutCredentials(shown), length);
}

function fitOrNull(text: string | null | undefined): string | null {
  return text == null ? null : fit(text);
}
