/**
 * The layers of the code and what each may import. test/architecture.test.ts enforces the tables, and
 * docs/architecture.md prints them. A layer that needs more is changed here first, in a commit of its own.
 */

export interface LayerRule {
  /** Purpose in one sentence. */
  readonly purpose: string;
  /** Layers of which it may import everything. */
  readonly layers?: readonly string[];
  /** Single files of other layers. */
  readonly files?: readonly string[];
  /** Layers or files of which it may import types only. */
  readonly types?: readonly string[];
  readonly packages?: readonly string[] | "any";
  /** May import modules of Node. */
  readonly node?: true;
}

export interface PartRule {
  readonly purpose: string;
  /** Other parts of the same layer that it may import. */
  readonly imports: readonly string[];
}

/** In the order in which they are best read: the lower layers first. */
export const LAYERS: Readonly<Record<string, LayerRule>> = {
  "src/runtime": {
    purpose: "Helpers without knowledge of the domain: timeouts, periodic tasks, batching.",
    packages: ["dataloader"],
    node: true,
  },
  "src/errors.ts": {
    purpose: "The closed list of refusal codes, each with its HTTP status and its remedy.",
    node: true,
  },
  "src/log.ts": {
    purpose: "The log, through pino: JSON lines, or short lines for people.",
    node: true,
    packages: ["pino", "pino-pretty"],
  },
  "src/observer.ts": { purpose: "The interface through which the other layers report to telemetry." },
  "src/config": {
    purpose: "Configuration from flags and environment variables.",
    layers: ["src/runtime"],
    files: ["src/errors.ts", "src/log.ts"],
    node: true,
  },
  "src/lifecycle": {
    purpose: "Pure decisions: states, transitions, routes, admission, interrupts, waves. No input or output.",
    files: ["src/errors.ts"],
  },
  "src/drivers": {
    purpose: "The driver contract, and the processes in which drivers run.",
    layers: ["src/runtime"],
    files: ["src/errors.ts", "src/log.ts"],
    packages: ["@standard-schema/spec"],
    node: true,
  },
  plugins: { purpose: "The bundled drivers.", types: ["src/drivers/driver.ts"], packages: "any", node: true },
  "src/store": {
    purpose: "All SQL: tables, and one function per question.",
    layers: ["src/lifecycle", "src/runtime"],
    files: ["src/errors.ts"],
    packages: ["drizzle-orm", "postgres"],
    node: true,
  },
  "src/feed": {
    purpose: "Streams from the log of transitions: cursors, snapshots, the tail.",
    layers: ["src/store", "src/runtime"],
    files: ["src/errors.ts", "src/log.ts", "src/observer.ts"],
    node: true,
  },
  "src/engine": {
    purpose: "Admits requests and executes runs.",
    layers: ["src/lifecycle", "src/drivers", "src/store", "src/runtime"],
    files: ["src/errors.ts", "src/log.ts", "src/observer.ts"],
    node: true,
  },
  "src/telemetry": {
    purpose: "Metrics, traces and log lines, made from what the observer receives. Only src/app.ts imports it.",
    layers: ["src/store", "src/runtime"],
    files: ["src/errors.ts", "src/log.ts", "src/observer.ts"],
    types: ["src/engine/engine.ts"],
    packages: [
      "@prometheus-io/client",
      "@opentelemetry/api",
      "@opentelemetry/context-async-hooks",
      "@opentelemetry/core",
      "@opentelemetry/exporter-trace-otlp-http",
      "@opentelemetry/resources",
      "@opentelemetry/sdk-trace",
    ],
    node: true,
  },
  "src/access": {
    purpose: "Who calls, by which credential, and what the caller may do.",
    layers: ["src/lifecycle", "src/store", "src/runtime"],
    files: ["src/config/values.ts", "src/errors.ts"],
    types: ["src/config/oidc.ts", "src/log.ts"],
    packages: ["jose", "openid-client"],
    node: true,
  },
  "src/graphql": {
    purpose: "The API: schema, resolvers, limits of a request.",
    layers: ["src/lifecycle", "src/store", "src/feed", "src/access", "src/runtime"],
    files: [
      "src/engine/views.ts",
      "src/drivers/interfaces.ts",
      "src/drivers/load.ts",
      "src/drivers/registry.ts",
      "src/drivers/settings-shape.ts",
      "src/errors.ts",
    ],
    types: ["src/engine", "src/drivers/driver.ts", "src/log.ts", "src/observer.ts"],
    packages: [
      "@pothos/*",
      "graphql",
      "graphql-yoga",
      "graphql-ws",
      "@graphql-yoga/*",
      "@graphql-tools/*",
      "dataloader",
      "zod",
    ],
    node: true,
  },
  "src/http": {
    purpose: "The port: HTTP, server-sent events, WebSocket, callbacks of machines, health.",
    layers: ["src/graphql", "src/access", "src/runtime"],
    files: ["src/engine/views.ts", "src/config/values.ts", "src/errors.ts", "src/log.ts", "src/observer.ts"],
    types: ["src/engine/engine.ts", "src/store/records.ts"],
    packages: ["cookie", "graphql", "graphql-yoga", "graphql-ws", "@graphql-yoga/*", "ws"],
    node: true,
  },
  "src/provisioning": {
    purpose: "The port for machines: boot scripts, boot media and images, the agent's requests. Not the API.",
    layers: ["src/runtime"],
    files: [
      "src/http/graphql/in-order.ts",
      "src/http/port/listen.ts",
      "src/http/port/web-server.ts",
      "src/http/graphql/respond.ts",
      "src/errors.ts",
    ],
    packages: ["@peculiar/x509", "reflect-metadata"],
    types: [
      "src/engine/agents/agents.ts",
      "src/drivers/driver.ts",
      "src/store/records.ts",
      "src/log.ts",
      "src/observer.ts",
    ],
    node: true,
  },
  "src/startup": {
    purpose: "Parts of a start: the database, waited for, opened and migrated; the demonstration fleet.",
    layers: ["src/store"],
    files: ["src/config/config.ts", "src/errors.ts"],
    types: ["src/engine", "src/log.ts"],
    node: true,
  },
  "src/commands": {
    purpose: "The commands: the service, migration, images, and what provisioning servers need.",
    layers: [
      "src/startup",
      "src/engine",
      "src/store",
      "src/drivers",
      "src/graphql",
      "src/provisioning",
      "src/lifecycle",
      "src/runtime",
      "src/config",
    ],
    files: ["src/app.ts", "src/errors.ts", "src/log.ts"],
    packages: ["undici"],
    node: true,
  },
  "packages/bmc-simulator": {
    purpose: "Simulated BMCs, for tests and demonstrations; knows nothing of the service.",
    packages: "any",
    node: true,
  },
  "packages/agent": { purpose: "The build and the checks of the agent, which is written in Go.", node: true },
  "packages/release": {
    purpose: "The build of a release, and its checks.",
    files: ["packages/agent/build/debian.ts", "packages/agent/build/programs.ts"],
    packages: ["@cyclonedx/cyclonedx-library"],
    node: true,
  },
  "packages/client": {
    purpose: "The published package ostler-client, for browsers and Node.",
    packages: ["graphql", "graphql-ws", "react"],
    node: true,
  },
  "packages/cli": {
    purpose: "The command line for operators, over the public API; also published as ostler-cli.",
    layers: ["packages/client"],
    packages: ["commander", "graphql-sse", "vite"],
    node: true,
  },
  "packages/console": {
    purpose: "The web console, over the public API alone, and its build.",
    layers: ["packages/client"],
    packages: [
      "@base-ui/react",
      "@tanstack/react-query",
      "@tanstack/react-virtual",
      "ostler-client",
      "react",
      "react-dom",
      "vite",
      "wouter",
    ],
    node: true,
  },
  "packages/driver": {
    purpose: "The package ostler-driver: the contract and its conformance suite, for authors of drivers.",
    layers: ["src/runtime"],
    files: [
      "src/drivers/driver.ts",
      "src/drivers/no-agent.ts",
      "src/drivers/settings-shape.ts",
      "src/drivers/step-result.ts",
      "src/errors.ts",
    ],
    packages: ["ostler-driver", "zod"],
    node: true,
  },
};

/** Within a layer: which other parts of it a part may import. */
export const PARTS: Readonly<Record<string, PartRule>> = {
  "src/store/postgres": {
    purpose: "Connections, pools, migrations, the embedded server, the notifier.",
    imports: [],
  },
  "src/store/secrets": {
    purpose: "Keys, and the encryption of secrets in all tables.",
    imports: ["src/store/postgres", "src/store/tables.ts", "src/store/records.ts"],
  },
  "src/graphql/base": { purpose: "What every file of the schema uses.", imports: [] },
  "src/graphql/execution": {
    purpose: "How a request is limited, instrumented and executed.",
    imports: ["src/graphql/base"],
  },
  "src/graphql/schema": {
    purpose: "One file per aggregate: type, queries, mutations, subscriptions.",
    imports: ["src/graphql/base", "src/graphql/execution"],
  },
  "src/graphql/tools": {
    purpose: "The page of GraphiQL, and its examples.",
    imports: ["src/graphql/base", "src/graphql/schema"],
  },
  "src/engine/audit": { purpose: "Rows of the audit: what they record of requests and edits.", imports: [] },
  "src/engine/transaction.ts": {
    purpose: "Transactions, and the only functions that change a node's state.",
    imports: ["src/engine/audit"],
  },
  "src/engine/context.ts": {
    purpose: "The parts that the engine's functions share.",
    imports: ["src/engine/input", "src/engine/plans", "src/engine/transaction.ts"],
  },
  "src/engine/input": { purpose: "Selectors, and checks of names, sizes and variables.", imports: [] },
  "src/engine/access": {
    purpose: "Changes of accounts, tokens, roles, grants and registered documents.",
    imports: ["src/engine/audit", "src/engine/input", "src/engine/context.ts", "src/engine/transaction.ts"],
  },
  "src/engine/images": {
    purpose: "Images: registering, changing and deleting them, their files, and the rules of what names them.",
    imports: ["src/engine/audit", "src/engine/input", "src/engine/context.ts", "src/engine/transaction.ts"],
  },
  "src/engine/plans": { purpose: "From a route to a list of steps.", imports: ["src/engine/input"] },
  "src/engine/claims": { purpose: "What is due, claims of it and their leases.", imports: [] },
  "src/engine/scheduling": {
    purpose: "When a run starts, waits and finishes: slots, waves, failure policy.",
    imports: ["src/engine/input", "src/engine/plans", "src/engine/context.ts", "src/engine/transaction.ts"],
  },
  "src/engine/admission": {
    purpose: "From a request to a stored operation.",
    imports: [
      "src/engine/images",
      "src/engine/input",
      "src/engine/plans",
      "src/engine/scheduling",
      "src/engine/context.ts",
      "src/engine/transaction.ts",
    ],
  },
  "src/engine/execution": {
    purpose: "From a claimed run to its end, step by step.",
    imports: [
      "src/engine/images",
      "src/engine/input",
      "src/engine/plans",
      "src/engine/claims",
      "src/engine/scheduling",
      "src/engine/context.ts",
      "src/engine/transaction.ts",
    ],
  },
  "src/engine/agents": {
    purpose: "Sessions of the agent that machines boot from a ramdisk, and their tasks.",
    imports: ["src/engine/input", "src/engine/execution", "src/engine/context.ts", "src/engine/transaction.ts"],
  },
  "src/engine/interruption": {
    purpose: "Abort, stop, withdrawal of an abort, unhold.",
    imports: [
      "src/engine/input",
      "src/engine/plans",
      "src/engine/scheduling",
      "src/engine/context.ts",
      "src/engine/transaction.ts",
    ],
  },
  "src/engine/inventory": {
    purpose: "Changes that are not work: nodes, clusters, runbooks, site, presence, retention.",
    imports: [
      "src/engine/audit",
      "src/engine/input",
      "src/engine/plans",
      "src/engine/claims",
      "src/engine/scheduling",
      "src/engine/context.ts",
      "src/engine/transaction.ts",
    ],
  },
  "src/engine/discovery": {
    purpose: "Finding machines at addresses and registering them.",
    imports: [
      "src/engine/input",
      "src/engine/admission",
      "src/engine/execution",
      "src/engine/inventory",
      "src/engine/context.ts",
      "src/engine/transaction.ts",
    ],
  },
  "src/engine/power": {
    purpose: "Reading the power of nodes, in the background and on request.",
    imports: ["src/engine/input", "src/engine/execution", "src/engine/context.ts", "src/engine/transaction.ts"],
  },
};

/** Packages that only one place imports. */
export const PACKAGE_HOMES: Readonly<Record<string, string>> = {
  cookie: "src/http",
  "drizzle-orm": "src/store",
  jose: "src/access",
  "openid-client": "src/access",
  postgres: "src/store",
};
