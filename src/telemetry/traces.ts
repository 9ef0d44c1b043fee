/**
 * OpenTelemetry traces, exported by OTLP over HTTP. The SDK is loaded only if the environment enables traces with the
 * standard OTEL_… variables; docs/operations.md lists the supported ones.
 *
 * There are two kinds of trace, linked in both directions:
 * - of a request: the request and its calls to the engine. It continues the caller's trace if there is a `traceparent`.
 * - of an operation: the trace id is the operation's id, and a run's span id is the first half of the run's id. Any
 *   replica that executes a run, also after a restart, adds its spans to the same trace without stored state.
 */
import { withinTime } from "../runtime/timeout.ts";
import type { Sampler } from "@opentelemetry/sdk-trace";
import type { Observer } from "../observer.ts";
import type { Log } from "../log.ts";
import { createTraceObserver } from "./trace-observer.ts";
import type { SpanIds } from "./trace-observer.ts";

export interface Traces extends AsyncDisposable {
  readonly observer: Observer;
}

const EXPORTERS = ["otlp", "none"];
/** Maximum number of spans waiting for export; further spans are dropped. */
const WAITING_MAX = 16_384;
const BATCH = 2_048;
const SEND_EVERY_MS = 1_000;
/** Upper bound on the final export at shutdown. */
const SHUTDOWN_MS = 2_000;

/** Null if the environment does not enable traces. */
export async function createTraces({
  version,
  log,
  environment = process.env,
}: {
  readonly version: string;
  readonly log: Log;
  readonly environment?: NodeJS.ProcessEnv;
}): Promise<Traces | null> {
  if (!isEnabled(environment, log)) return null;
  const [api, { W3CTraceContextPropagator }, { BatchSpanProcessor, TracerProvider }, exporter, contextHooks] =
    await Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/core"),
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/context-async-hooks"),
    ]);
  api.diag.setLogger(
    {
      error: (text) => log.warn({ what: text }, "traces"),
      warn: (text) => log.warn({ what: text }, "traces"),
      info: () => {},
      debug: () => {},
      verbose: () => {},
    },
    { logLevel: api.DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  const ids = await createIds();
  const provider = new TracerProvider({
    resource: await resourceOf(version),
    sampler: await samplerOf(environment, log),
    idGenerator: ids,
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new exporter.OTLPTraceExporter(),
        maxQueueSize: WAITING_MAX,
        maxExportBatchSize: BATCH,
        scheduledDelayMillis: SEND_EVERY_MS,
      }),
    ],
  });
  // Not OpenTelemetry's global manager: two services in one process keep separate contexts.
  const contexts = new contextHooks.AsyncLocalStorageContextManager().enable();
  const tracer = provider.getTracer("ostler", version);
  return {
    observer: createTraceObserver({
      api,
      tracer,
      contexts,
      propagator: new W3CTraceContextPropagator(),
      withIds: ids.withIds,
    }),
    async [Symbol.asyncDispose]() {
      const exported = provider
        .shutdown()
        .catch((error: unknown) => log.warn({ err: error }, "the last traces could not be exported"));
      await withinTime(SHUTDOWN_MS, exported, undefined);
      contexts.disable();
    },
  };
}

/** The service's name and version, with what the environment, host and process report. */
async function resourceOf(version: string) {
  const resources = await import("@opentelemetry/resources");
  return resources
    .defaultResource()
    .merge(resources.resourceFromAttributes({ "service.name": "ostler", "service.version": version }))
    .merge(
      resources.detectResources({
        detectors: [
          resources.envDetector,
          resources.hostDetector,
          resources.processDetector,
          resources.serviceInstanceIdDetector,
        ],
      }),
    );
}

/** Whether the environment names an exporter or an endpoint. An empty variable counts as unset. */
function isEnabled(environment: NodeJS.ProcessEnv, log: Log): boolean {
  if (environment["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return false;
  const exporter = environment["OTEL_TRACES_EXPORTER"];
  if (exporter !== undefined && exporter !== "") {
    if (!EXPORTERS.includes(exporter))
      log.warn({ exporter }, "OTEL_TRACES_EXPORTER must be otlp or none; traces are off");
    return exporter === "otlp";
  }
  return Boolean(environment["OTEL_EXPORTER_OTLP_ENDPOINT"] || environment["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]);
}

/** The sampler by OpenTelemetry's variables. Default, and for unknown values: parentbased_always_on. */
async function samplerOf(environment: NodeJS.ProcessEnv, log: Log) {
  const { AlwaysOffSampler, AlwaysOnSampler, ParentBasedSampler, TraceIdRatioBasedSampler } =
    await import("@opentelemetry/sdk-trace");
  const given = environment["OTEL_TRACES_SAMPLER"] ?? "";
  const share = Number(environment["OTEL_TRACES_SAMPLER_ARG"] || "1");
  // Spans of an operation have a remote parent that may never be exported, so the id decides, equally on all replicas.
  const byParent = (root: Sampler) => new ParentBasedSampler({ root, remoteParentSampled: root });
  switch (given) {
    case "":
    case "parentbased_always_on":
      return byParent(new AlwaysOnSampler());
    case "always_on":
      return new AlwaysOnSampler();
    case "always_off":
    case "parentbased_always_off":
      return new AlwaysOffSampler();
    case "traceidratio":
    case "parentbased_traceidratio":
      return byParent(new TraceIdRatioBasedSampler(Number.isFinite(share) ? share : 1));
    default:
      log.warn({ sampler: given }, "unknown OTEL_TRACES_SAMPLER; sampling everything");
      return byParent(new AlwaysOnSampler());
  }
}

/** Generates random ids, except for a span created within `withIds`. */
async function createIds() {
  const { RandomIdGenerator } = await import("@opentelemetry/sdk-trace");
  const random = new RandomIdGenerator();
  let next: SpanIds | null = null;
  return {
    generateTraceId: () => next?.trace ?? random.generateTraceId(),
    generateSpanId: () => next?.span ?? random.generateSpanId(),
    withIds<T>(ids: SpanIds, make: () => T): T {
      next = ids;
      try {
        return make();
      } finally {
        next = null;
      }
    },
  };
}
