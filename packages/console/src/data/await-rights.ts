/** The way back of a page that the service has refused: its login has ended, or its roles were taken away. */
import { request } from "./request.ts";
import { letIn, mayAsk } from "./session.ts";

/** Between two questions: each may be a failed login in the audit. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 600_000;
let pause = FIRST_PAUSE_MS;

/** The page is live: the pauses begin again. */
export function noteLive(): void {
  pause = FIRST_PAUSE_MS;
}

/**
 * Asks until the service accepts this page: after growing pauses, and when a person comes back to it, who may have
 * signed in elsewhere. Returns how to end that.
 */
export function awaitRights(): () => void {
  const over = new AbortController();
  const { signal } = over;
  let timer = setTimeout(() => void ask(), pause);
  async function ask(): Promise<void> {
    if (signal.aborted) return;
    const asked = (await mayAsk()) && (await request("viewer", {}, signal).catch(() => null));
    if (signal.aborted) return;
    // Set by a question that was under way at the same time.
    clearTimeout(timer);
    // Without a role nothing can be read.
    if (asked && asked.viewer.scope !== null) letIn();
    else timer = setTimeout(() => void ask(), pause);
    // Also after an acceptance: the next socket may be refused again.
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
  document.addEventListener("visibilitychange", () => document.hidden || void ask(), { signal });
  return () => over.abort();
}
