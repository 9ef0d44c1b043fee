/** Timers of one BMC, which end with it. */

export interface Timers {
  after(ms: number, run: () => void): void;
  close(): void;
}

export function createTimers(): Timers {
  const running = new Set<NodeJS.Timeout>();
  return {
    after(ms, run) {
      const timer = setTimeout(() => {
        running.delete(timer);
        run();
      }, ms);
      running.add(timer);
    },
    close() {
      for (const timer of running) clearTimeout(timer);
      running.clear();
    },
  };
}
