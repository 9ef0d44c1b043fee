/** A moment, with its date and zone on demand. */
import { serviceNow } from "../data/clock.ts";
import { timeText } from "../words/numbers.ts";

export function Time({ at }: { readonly at: string }) {
  return (
    <time dateTime={at} title={new Date(at).toString()}>
      {timeText(at, serviceNow())}
    </time>
  );
}
