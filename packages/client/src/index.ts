/**
 * The package `ostler-client`: follows nodes, operations, runs, clusters, counts and what needs a person, over any loss
 * of the connection. Imports nothing of the service.
 */
export { createChangeMap } from "./change-map.ts";
export type { ChangeItem, ChangeMap } from "./change-map.ts";
export { connect } from "./connection.ts";
export type { ConnectOptions, Connection, ConnectionStatus } from "./connection.ts";
export type { TypedDocument } from "./documents.ts";
export { WatchError } from "./errors.ts";
export { followChanges } from "./follow-changes.ts";
export type { FollowOptions, ItemsView, ListPage, ValueView, ViewOf } from "./follow-changes.ts";
export { followRunLog } from "./follow-log.ts";
export type { LogLine, LogView } from "./follow-log.ts";
export type { NodeFilter } from "./node-filter.ts";
export { NODE_STATES } from "./node-state.ts";
export type { NodeState } from "./node-state.ts";
export type { Store } from "./store.ts";
export { watchNodes } from "./watch-nodes.ts";
export type { WatchItem, WatchOptions } from "./watch-nodes.ts";
