/** Numbers, durations and times as the page shows them. */

export const numberText = new Intl.NumberFormat("en").format;

/** `1 node`, `312 nodes`. */
export function plural(count: number, one: string, several = `${one}s`): string {
  return `${numberText(count)} ${count === 1 ? one : several}`;
}

/** A duration, rounded to what a person needs: `45 s`, `4 min`, `2 h 10 min`, `3 days`. */
export function durationText(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return plural(Math.round(hours / 24), "day");
}

/** Time of the day, and the date if it is another day than `now`. */
export function timeText(time: string | Date, now: Date): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  const clock = date.toLocaleTimeString("en-GB");
  return date.toDateString() === now.toDateString() ? clock : `${date.toLocaleDateString("en-CA")} ${clock}`;
}

/** How long ago; a clock that runs behind shows 0 s, not a time to come. */
export function agoText(time: string, now: Date): string {
  return `${durationText((now.getTime() - new Date(time).getTime()) / 1_000)} ago`;
}

/** Times in a sentence of the service, such as `2026-01-02T10:00:00.123Z`, as this page shows times. */
export function withLocalTimes(text: string, now = new Date()): string {
  return text.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (time) => timeText(time, now));
}
