/**
 * Priorities of jobs: work that has begun goes before work that has not. `begun`: runs whose wait is over. `woken`:
 * runs that a callback or a user wakes, and orphaned ones, which must not wait behind a thousand new runs. `ending`:
 * runs that an interrupt ends; they are taken even if `concurrency` is reached, perhaps by stuck runs.
 */
export const PRIORITY = { begun: 5, woken: 10, ending: 20 } as const;
