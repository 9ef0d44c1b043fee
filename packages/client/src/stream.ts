/** One subscription that goes on over any loss of the connection, until an error that a retry cannot resolve. */
import type { Connection } from "./connection.ts";
import { judgeErrors, reasonOf } from "./errors.ts";
import type { WatchError } from "./errors.ts";

export interface Sink {
  /** The variables of the next subscription. May be called several times for one. */
  begin(): Record<string, unknown>;
  take(item: never): void;
  /** Nothing arrives until the next subscription. */
  lost(why: string): void;
  /** The service has completed the stream; without this function, it is subscribed to again. */
  completed?(): void;
  /** The stream has ended. */
  failed(error: WatchError): void;
}

/** Subscribes, and returns the function that ends it. */
export function openStream({ client, pauseMs, renew }: Connection, query: string, sink: Sink): () => void {
  let hasEnded = false;
  let tries = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let unsubscribe = () => {};
  const unlisten = client.on("closed", (event) => sink.lost(reasonOf(event)));

  function end(): void {
    hasEnded = true;
    clearTimeout(timer);
    unlisten();
    unsubscribe();
  }

  function again(why: string): void {
    if (hasEnded) return;
    sink.lost(why);
    timer = setTimeout(subscribe, pauseMs(tries));
    tries += 1;
  }

  function judge(cause: unknown): void {
    if (hasEnded) return;
    const judged = judgeErrors(cause);
    if (typeof judged === "string") return again(judged);
    end();
    sink.failed(judged);
  }

  function subscribe(): void {
    let isDone = false;
    const once = (then: () => void) => {
      if (isDone) return;
      isDone = true;
      close();
      then();
    };
    const close = client.subscribe(
      {
        query,
        // graphql-ws serializes the request for each connection: with a getter it continues, and does not repeat.
        get variables() {
          return sink.begin();
        },
      },
      {
        next({ data, errors }) {
          if (isDone || hasEnded) return;
          const item = Object.entries(data ?? {}).find(([field]) => field !== "__typename")?.[1] as object | undefined;
          // A part that could not be read would replace what is known.
          if (errors?.length || !item) return once(() => judge(errors ?? []));
          sink.take(item as never);
          // A reset is the last item of a stream.
          if (!("code" in item)) return void (tries = 0);
          once(() => {
            if (item.code === "ACCESS_CHANGED") renew();
            again(`the service ended the stream: ${String(item.code)}`);
          });
        },
        error: (cause) => once(() => judge(cause)),
        complete: () => once(() => (sink.completed ? sink.completed() : again("the service completed the stream"))),
      },
    );
    unsubscribe = close;
  }

  subscribe();
  return end;
}
