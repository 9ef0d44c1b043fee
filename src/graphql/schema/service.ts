/** The service itself: version and limits, and the caller. */
import { builder, needs } from "../base/builder.ts";
import { PAGE_MAX, TRANSITIONS_PAGE_MAX } from "../base/connection.ts";
import type { Context } from "../base/context.ts";

const ServiceInfoRef = builder.objectRef<object>("ServiceInfo").implement({
  description: "Version and limits that a client can rely on.",
  fields: (t) => ({
    version: t.string({
      description: "Semantic version of the server.",
      resolve: (_root, _args, { services }) => services.version,
    }),
    schemaHash: t.string({
      description: "Hash of the schema; changes whenever the schema does.",
      resolve: (_root, _args, { services }) => services.schemaHash,
    }),
    now: t.field({
      type: "DateTime",
      description: "Server time, for clients that measure skew.",
      resolve: () => new Date(),
    }),
    maxPageSize: t.int({ description: "Largest accepted `first` or `last`.", resolve: () => PAGE_MAX }),
    maxTransitionsPageSize: t.int({
      description: "The same, for lists of transitions.",
      resolve: () => TRANSITIONS_PAGE_MAX,
    }),
  }),
});

const ActorRef = builder.objectRef<Context["actor"]>("Actor").implement({
  description: "A person or machine that calls the API.",
  fields: (t) => ({
    subject: t.exposeString("subject", {
      description: "Stable subject of the credential; `anonymous` where none is needed.",
    }),
    project: t.exposeString("project", { description: "Project the caller works in." }),
  }),
});

builder.queryField("service", (t) =>
  t.field({ type: ServiceInfoRef, ...needs("READ"), description: "Version and limits.", resolve: () => ({}) }),
);
builder.queryField("viewer", (t) =>
  t.field({
    type: ActorRef,
    ...needs("READ"),
    description: "The caller.",
    resolve: (_root, _args, { actor }) => actor,
  }),
);
