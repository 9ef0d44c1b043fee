/** Stores for user interfaces: a view that never changes, and listeners that are called when there is another one. */

export interface Store<View> {
  /** The newest view; the same object until there is another one. */
  getSnapshot(): View;
  /** Calls the listener for each further view, until the returned function is called. */
  subscribe(listener: () => void): () => void;
}

/**
 * `start` is called with the first listener; its signal fires after the last one has left. `changed` must be called
 * when the view may be another one; an urgent change does not wait for the throttle.
 */
export function createStore<View extends object>(
  look: () => View,
  throttleMs = 0,
  start: (signal: AbortSignal) => void = () => {},
): Store<View> & { changed(isUrgent?: boolean): void } {
  const listeners = new Set<() => void>();
  let view = look();
  let stop = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let publishedAt = -Infinity;

  function publish(): void {
    timer = undefined;
    const next = look();
    if (Object.keys(next).every((key) => next[key as keyof View] === view[key as keyof View])) return;
    publishedAt = performance.now();
    view = next;
    for (const listener of listeners) listener();
  }

  return {
    changed(isUrgent = false) {
      if (isUrgent) {
        clearTimeout(timer);
        timer = setTimeout(publish);
      }
      timer ??= setTimeout(publish, Math.max(0, publishedAt + throttleMs - performance.now()));
    },
    getSnapshot: () => view,
    subscribe(listener: () => void) {
      // A wrapper of its own: the same function may subscribe twice.
      const own = () => listener();
      listeners.add(own);
      if (listeners.size === 1) {
        stop = new AbortController();
        start(stop.signal);
      }
      return () => {
        if (!listeners.delete(own) || listeners.size > 0) return;
        stop.abort();
        clearTimeout(timer);
        timer = undefined;
        view = look();
      };
    },
  };
}
