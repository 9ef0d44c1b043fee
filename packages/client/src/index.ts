/**
 * The package `ostler-client`: watches nodes and resumes after any loss of the connection. Imports nothing of the
 * service.
 */
export { createChangeMap } from "./change-map.ts";
export type { ChangeItem, ChangeMap } from "./change-map.ts";
export type { NodeFilter } from "./node-filter.ts";
export { WatchError } from "./items.ts";
export type { BeginReason, NodeFields, Transition, WatchItem, WatchedNode } from "./items.ts";
export { createNodeStore } from "./node-store.ts";
export type { NodeStore, NodeStoreOptions, NodesView } from "./node-store.ts";
export { NODE_STATES } from "./node-state.ts";
export type { NodeState } from "./node-state.ts";
export { createNodeMap } from "./node-map.ts";
export type { NodeMap } from "./node-map.ts";
export { watchNodes } from "./watch-nodes.ts";
export type { WatchOptions } from "./watch-nodes.ts";
