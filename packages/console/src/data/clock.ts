/** The time of the service, by which lists of the last hour are read: the clock of this computer may be wrong. */

/** Below this, the difference may be that of the network and of seconds without fractions. */
const SLACK_MS = 5_000;

let aheadMs = 0;

/** Reads the clock of the service from one of its answers. */
export function noteTime({ headers }: Response): void {
  const ahead = Date.parse(headers.get("date") ?? "") - Date.now();
  if (!Number.isNaN(ahead)) aheadMs = Math.abs(ahead) < SLACK_MS ? 0 : ahead;
}

export const serviceNow = () => new Date(Date.now() + aheadMs);
