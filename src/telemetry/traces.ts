/**
 * Traces through OpenTelemetry, sent by OTLP over HTTP. Its SDK is loaded only when the environment asks for traces; its
 * own variables (OTEL_…) say where they go. docs/operations.md tells which are understood.
 *
 * There are two kinds of trace. A request's: the request, and in it what it asked the engine for; it goes on with the
 * caller's, where there is a `traceparent`. An operation's: its id IS the trace's id, and a run's span has the first half
 * of the run's id. So whatever replica works on a run, after whatever restart, adds its steps and calls to the same trace,
 * and nothing need be stored for it. The two are linked, both ways.
 */
import type { Attributes, Context, Span, SpanContext, Tracer } from "@opentelemetry/api";
import type { Sampler } from "@opentelemetry/sdk-trace";
import { noopObserver } from "../observer.ts";
import type { Observer, RequestWatch } from "../observer.ts";
import type { Log } from "../log.ts";

export interface Traces extends AsyncDisposable {
  readonly observer: Observer;
}

const EXPORTERS = ["otlp", "none"];
/** Spans that wait to be sent; further ones are dropped. */
const WAITING_MAX = 16_384;
const BATCH = 2_048;
const SEND_EVERY_MS = 1_000;
/** How long the last ones may take, when the service ends. */
const END_MS = 2_000;

/** Null: nobody asked for traces. */
export async function createTraces({
  version,
  log,
  environment = process.env,
}: {
  readonly version: string;
  readonly log: Log;
  readonly environment?: NodeJS.ProcessEnv;
}): Promise<Traces | null> {
  if (!isWanted(environment, log)) return null;
  const [
    api,
    core,
    { BatchSpanProcessor, TracerProvider },
    { OTLPTraceExporter },
    { AsyncLocalStorageContextManager },
    resources,
  ] = await Promise.all([
    import("@opentelemetry/api"),
    import("@opentelemetry/core"),
    import("@opentelemetry/sdk-trace"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/context-async-hooks"),
    import("@opentelemetry/resources"),
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
  const resource = resources
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
  const provider = new TracerProvider({
    resource,
    sampler: await samplerOf(environment, log),
    idGenerator: ids,
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter(),
        maxQueueSize: WAITING_MAX,
        maxExportBatchSize: BATCH,
        scheduledDelayMillis: SEND_EVERY_MS,
      }),
    ],
  });
  // Of our own, and not OpenTelemetry's one for the process: two services in one process keep their traces apart.
  const contexts = new AsyncLocalStorageContextManager().enable();
  const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = api;
  const tracer: Tracer = provider.getTracer("ostler", version);
  const propagator = new core.W3CTraceContextPropagator();

  async function around<T>(
    span: Span,
    parent: Context,
    work: () => Promise<T>,
    ending: (answer: T) => void,
  ): Promise<T> {
    try {
      const answer = await contexts.with(trace.setSpan(parent, span), work);
      ending(answer);
      return answer;
    } catch (error) {
      // The name alone: a message may hold anything.
      span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.name : "error" });
      throw error;
    } finally {
      span.end();
    }
  }

  /** Makes a span with an id that is known before, in an operation's trace. */
  function known(
    name: string,
    place: { readonly trace: string; readonly span: string; readonly parent?: string },
    options: Parameters<Tracer["startSpan"]>[1],
  ): Span {
    const parent =
      place.parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, remote(place.trace, place.parent));
    return ids.taking(place, () => tracer.startSpan(name, options, parent));
  }

  const remote = (traceId: string, spanId: string): SpanContext => ({
    traceId,
    spanId,
    traceFlags: api.TraceFlags.SAMPLED,
    isRemote: true,
  });
  const runAttributes = ({
    operationId,
    runId,
    node,
  }: {
    readonly operationId: string;
    readonly runId: string;
    readonly node: string;
  }): Attributes => ({ "ostler.operation.id": operationId, "ostler.run.id": runId, "ostler.node.name": node });
  const upTo = (operationId: string) => ({ context: remote(hexOf(operationId), spanOf(operationId)) });

  const observer: Observer = {
    ...noopObserver,
    call({ driver, name, node }, work) {
      const parent = contexts.active();
      const span = tracer.startSpan(
        name,
        { kind: SpanKind.CLIENT, attributes: { "ostler.driver": driver, "ostler.node.name": node } },
        parent,
      );
      return around(span, parent, work, () => {});
    },
    step(about, work) {
      const { operationId, runId, step, driver, attempt, part } = about;
      const parent = trace.setSpanContext(ROOT_CONTEXT, remote(hexOf(operationId), spanOf(runId)));
      const span = tracer.startSpan(
        step,
        {
          attributes: {
            ...runAttributes(about),
            "ostler.step": step,
            "ostler.driver": driver,
            "ostler.attempt": attempt,
            "ostler.part": part,
          },
        },
        parent,
      );
      return around(span, parent, work, ({ kind, code, reason }) => {
        span.setAttribute("ostler.outcome", kind);
        if (kind !== "failed") return;
        if (code !== undefined) span.setAttribute("ostler.code", code);
        span.setStatus({ code: SpanStatusCode.ERROR, ...(reason !== undefined && { message: reason }) });
      });
    },
    admission(about, work, endOf) {
      const parent = contexts.active();
      const span = tracer.startSpan(
        `admission ${about.verb}`,
        { attributes: { "ostler.verb": about.verb, "ostler.actor": about.actor } },
        parent,
      );
      return around(span, parent, work, (answer) => {
        const { operationId, nodes, codes, replayed } = endOf(answer);
        span.setAttributes({
          "ostler.nodes": nodes,
          "ostler.refusals": codes.length,
          ...(operationId !== null && { "ostler.operation.id": operationId }),
        });
        if (operationId === null) return;
        span.addLink(upTo(operationId));
        if (replayed) return;
        const links = [{ context: span.spanContext() }];
        known(
          `operation ${about.verb}`,
          { trace: hexOf(operationId), span: spanOf(operationId) },
          {
            links,
            attributes: { "ostler.operation.id": operationId, "ostler.verb": about.verb, "ostler.nodes": nodes },
          },
        ).end();
      });
    },
    request({ type, name, requestId, transport, traceparent }): RequestWatch {
      const parent =
        traceparent === null
          ? ROOT_CONTEXT
          : propagator.extract(
              ROOT_CONTEXT,
              { traceparent },
              {
                get: (carrier, key) => (carrier as Record<string, string>)[key],
                keys: (carrier) => Object.keys(carrier as object),
              },
            );
      const attributes = {
        "graphql.operation.type": type,
        ...(name !== null && { "graphql.operation.name": name }),
        "ostler.request.id": requestId,
        "ostler.transport": transport,
      };
      const span = tracer.startSpan(`graphql ${type}`, { kind: SpanKind.SERVER, attributes }, parent);
      return {
        within: (work) => contexts.with(trace.setSpan(parent, span), work),
        end(outcome) {
          span.setAttribute("ostler.outcome", outcome);
          if (outcome === "error") span.setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        },
      };
    },
    runEnded(run, state) {
      const { operationId, runId, purpose, startedAt } = run;
      const place = { trace: hexOf(operationId), span: spanOf(runId), parent: spanOf(operationId) };
      const span = known(`run ${run.node}`, place, {
        ...(startedAt && { startTime: startedAt }),
        attributes: { ...runAttributes(run), "ostler.purpose": purpose, "ostler.outcome": state.toLowerCase() },
      });
      if (state === "FAILED") span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
  };
  return {
    observer,
    async [Symbol.asyncDispose]() {
      const late = new Promise<void>((done) => void setTimeout(done, END_MS).unref());
      await Promise.race([
        provider.shutdown().catch((error: unknown) => log.warn({ err: error }, "the last traces could not be sent")),
        late,
      ]);
      contexts.disable();
    },
  };
}

/** Whether the environment asks for traces: names an exporter, or where to send them. A variable that is empty is as one that is not there. */
function isWanted(environment: NodeJS.ProcessEnv, log: Log): boolean {
  if (environment["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return false;
  const exporter = environment["OTEL_TRACES_EXPORTER"];
  if (exporter !== undefined && exporter !== "") {
    if (!EXPORTERS.includes(exporter))
      log.warn({ exporter }, "OTEL_TRACES_EXPORTER is not known here; it is otlp or none, and there are no traces");
    return exporter === "otlp";
  }
  return Boolean(environment["OTEL_EXPORTER_OTLP_ENDPOINT"] || environment["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]);
}

/** By the variables of OpenTelemetry; what is absent or unknown samples everything that its parent has sampled. */
async function samplerOf(environment: NodeJS.ProcessEnv, log: Log) {
  const { AlwaysOffSampler, AlwaysOnSampler, ParentBasedSampler, TraceIdRatioBasedSampler } =
    await import("@opentelemetry/sdk-trace");
  const given = environment["OTEL_TRACES_SAMPLER"] ?? "";
  const share = Number(environment["OTEL_TRACES_SAMPLER_ARG"] || "1");
  // Of an operation's trace every part has a parent, which nobody need have sampled: its id decides, on all replicas alike.
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
      log.warn({ sampler: given }, "OTEL_TRACES_SAMPLER is not known here; everything is sampled");
      return byParent(new AlwaysOnSampler());
  }
}

/** Random ids, or those that are given for the next span. */
async function createIds() {
  const { RandomIdGenerator } = await import("@opentelemetry/sdk-trace");
  const random = new RandomIdGenerator();
  let next: { readonly trace: string; readonly span: string } | null = null;
  return {
    generateTraceId: () => next?.trace ?? random.generateTraceId(),
    generateSpanId: () => next?.span ?? random.generateSpanId(),
    taking<T>(ids: { readonly trace: string; readonly span: string }, make: () => T): T {
      next = ids;
      try {
        return make();
      } finally {
        next = null;
      }
    },
  };
}

/** A UUID as a trace's id. */
function hexOf(uuid: string): string {
  return uuid.replaceAll("-", "");
}

/** The first half of it as a span's. */
function spanOf(uuid: string): string {
  return hexOf(uuid).slice(0, 16);
}
