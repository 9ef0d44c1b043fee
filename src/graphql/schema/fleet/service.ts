/** The service and the caller. */
import { builder, needs } from "../../base/builder.ts";
import { NODES_PAGE_MAX, PAGE_MAX, TRANSITIONS_PAGE_MAX } from "../../base/connection.ts";
import type { Context } from "../../base/context.ts";
import { ScopeEnum } from "../access/roles.ts";

const ServiceInfoRef = builder.objectRef<object>("ServiceInfo").implement({
  description: "Version and limits of the service.",
  fields: (t) => ({
    version: t.string({
      description: "Semantic version of the service.",
      resolve: (_root, _args, { services }) => services.version,
    }),
    schemaHash: t.string({
      description: "Hash of the schema; changes whenever the schema changes.",
      resolve: (_root, _args, { services }) => services.schemaHash,
    }),
    now: t.field({
      type: "DateTime",
      description: "Time of the server, to measure clock skew.",
      resolve: () => new Date(),
    }),
    maxPageSize: t.int({
      description: "Maximum value of `first` and `last` in lists other than those of nodes and transitions.",
      resolve: () => PAGE_MAX,
    }),
    maxNodesPageSize: t.int({
      description: "Maximum value of `first` and `last` in lists of nodes.",
      resolve: () => NODES_PAGE_MAX,
    }),
    maxTransitionsPageSize: t.int({
      description: "Maximum value of `first` and `last` in lists of transitions.",
      resolve: () => TRANSITIONS_PAGE_MAX,
    }),
  }),
});

const ActorRef = builder.objectRef<Context["actor"]>("Actor").implement({
  description: "Person or machine that calls the API.",
  fields: (t) => ({
    subject: t.exposeString("subject", {
      description:
        "Stable name of the credential's owner: `account:<name>`; `user:<issuer>:<subject>`; `token` for the configured token; `anonymous` if none is needed.",
    }),
    displayName: t.exposeString("displayName", {
      nullable: true,
      description: "Name for people; null if there is none.",
    }),
    groups: t.stringList({
      description: "Groups whose roles the caller has, as principals.",
      resolve: ({ groups }) => [...groups],
    }),
    roles: t.stringList({ description: "Names of the caller's roles, sorted.", resolve: ({ roles }) => [...roles] }),
    scope: t.expose("scope", {
      type: ScopeEnum,
      nullable: true,
      description: "What the caller may do with this credential; null for nothing.",
    }),
    expiresAt: t.expose("expiresAt", {
      type: "DateTime",
      nullable: true,
      description: "When the credential, or the first of the caller's roles, expires; null if neither does.",
    }),
    project: t.exposeString("project", { description: "Project of the caller." }),
  }),
});

builder.queryField("service", (t) =>
  t.field({
    type: ServiceInfoRef,
    ...needs(null),
    description: "Version and limits of the service.",
    resolve: () => ({}),
  }),
);
builder.queryField("viewer", (t) =>
  t.field({
    type: ActorRef,
    ...needs(null),
    description: "Caller of this request.",
    resolve: (_root, _args, { actor }) => actor,
  }),
);
