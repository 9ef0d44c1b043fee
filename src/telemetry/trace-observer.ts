/** Spans for the events of the service's observer. traces.ts describes the two kinds of trace and their ids. */
import type * as OpenTelemetry from "@opentelemetry/api";
import type {
  Attributes,
  Context,
  ContextManager,
  Link,
  Span,
  SpanContext,
  SpanOptions,
  TextMapPropagator,
  Tracer,
} from "@opentelemetry/api";
import { noopObserver } from "../observer.ts";
import type { AdmissionAbout, AdmissionEnd, CallAbout, Observer, RequestAbout, RequestWatch } from "../observer.ts";
import type { RunAbout, StepAbout, StepEnd } from "../observer.ts";

interface Tracing {
  readonly api: typeof OpenTelemetry;
  readonly tracer: Tracer;
  /** Holds the span that calls in the same async context become children of. */
  readonly contexts: ContextManager;
  readonly propagator: TextMapPropagator;
  /** Runs `make`; the span that it starts gets these ids. */
  withIds<T>(ids: SpanIds, make: () => T): T;
}

/** Ids of a span, as hexadecimal text: 32 digits for the trace, 16 for the span. */
export interface SpanIds {
  readonly trace: string;
  readonly span: string;
}

export function createTraceObserver(tracing: Tracing): Observer {
  return {
    ...noopObserver,
    call: (about, work) => traceCall(tracing, about, work),
    step: (about, work) => traceStep(tracing, about, work),
    admission: (about, work, endOf) => traceAdmission(tracing, about, work, endOf),
    request: (about) => traceRequest(tracing, about),
    runEnded: (run, state) => traceRun(tracing, run, state),
  };
}

function traceCall<T>(tracing: Tracing, { driver, name, node }: CallAbout, work: () => Promise<T>): Promise<T> {
  const { api, tracer, contexts } = tracing;
  const parent = contexts.active();
  const attributes = { "ostler.driver": driver, "ostler.node.name": node };
  const span = tracer.startSpan(name, { kind: api.SpanKind.CLIENT, attributes }, parent);
  return inSpan(tracing, { span, parent }, work, () => {});
}

function traceStep<T extends StepEnd>(tracing: Tracing, about: StepAbout, work: () => Promise<T>): Promise<T> {
  const { operationId, runId, step, driver, attempt, part } = about;
  const parent = childOf(tracing, { trace: traceIdOf(operationId), span: spanIdOf(runId) });
  const attributes = {
    ...runAttributes(about),
    "ostler.step": step,
    "ostler.driver": driver,
    "ostler.attempt": attempt,
    "ostler.part": part,
  };
  const span = tracing.tracer.startSpan(step, { attributes }, parent);
  return inSpan(tracing, { span, parent }, work, ({ kind, code, reason }) => {
    span.setAttribute("ostler.outcome", kind);
    if (kind !== "failed") return;
    if (code !== undefined) span.setAttribute("ostler.code", code);
    span.setStatus({ code: tracing.api.SpanStatusCode.ERROR, ...(reason !== undefined && { message: reason }) });
  });
}

function traceAdmission<T>(
  tracing: Tracing,
  about: AdmissionAbout,
  work: () => Promise<T>,
  endOf: (answer: T) => AdmissionEnd,
): Promise<T> {
  const { tracer, contexts } = tracing;
  const parent = contexts.active();
  const attributes = { "ostler.verb": about.verb, "ostler.actor": about.actor };
  const span = tracer.startSpan(`admission ${about.verb}`, { attributes }, parent);
  return inSpan(tracing, { span, parent }, work, (answer) => {
    const { operationId, nodes, codes, replayed } = endOf(answer);
    span.setAttributes({
      "ostler.nodes": nodes,
      "ostler.refusals": codes.length,
      ...(operationId !== null && { "ostler.operation.id": operationId }),
    });
    if (operationId === null) return;
    const ids = { trace: traceIdOf(operationId), span: spanIdOf(operationId) };
    span.addLink({ context: remoteContext(tracing, ids) });
    if (!replayed) startOperationTrace(tracing, { ids, operationId, verb: about.verb, nodes, cause: span });
  });
}

/** The root span of an operation's trace, linked to the span of the request that caused it. */
function startOperationTrace(
  tracing: Tracing,
  {
    ids,
    operationId,
    verb,
    nodes,
    cause,
  }: { ids: SpanIds; operationId: string; verb: string; nodes: number; cause: Span },
): void {
  const links: Link[] = [{ context: cause.spanContext() }];
  const attributes = { "ostler.operation.id": operationId, "ostler.verb": verb, "ostler.nodes": nodes };
  startSpanWithIds(tracing, `operation ${verb}`, ids, { links, attributes }).end();
}

function traceRequest(tracing: Tracing, about: RequestAbout): RequestWatch {
  const { type, name, requestId, transport, traceparent } = about;
  const { api, tracer, contexts } = tracing;
  const parent = traceparent === null ? api.ROOT_CONTEXT : callerContext(tracing, traceparent);
  const attributes = {
    "graphql.operation.type": type,
    ...(name !== null && { "graphql.operation.name": name }),
    "ostler.request.id": requestId,
    "ostler.transport": transport,
  };
  const span = tracer.startSpan(`graphql ${type}`, { kind: api.SpanKind.SERVER, attributes }, parent);
  return {
    within: (work) => contexts.with(api.trace.setSpan(parent, span), work),
    end(outcome) {
      span.setAttribute("ostler.outcome", outcome);
      if (outcome === "error") span.setStatus({ code: api.SpanStatusCode.ERROR });
      span.end();
    },
  };
}

function traceRun(tracing: Tracing, run: RunAbout & { readonly startedAt: Date | null }, state: string): void {
  const { operationId, runId, purpose, startedAt } = run;
  const ids = { trace: traceIdOf(operationId), span: spanIdOf(runId), parent: spanIdOf(operationId) };
  const span = startSpanWithIds(tracing, `run ${run.node}`, ids, {
    ...(startedAt && { startTime: startedAt }),
    attributes: { ...runAttributes(run), "ostler.purpose": purpose, "ostler.outcome": state.toLowerCase() },
  });
  if (state === "FAILED") span.setStatus({ code: tracing.api.SpanStatusCode.ERROR });
  span.end();
}

function runAttributes({ operationId, runId, node }: Pick<RunAbout, "operationId" | "runId" | "node">): Attributes {
  return { "ostler.operation.id": operationId, "ostler.run.id": runId, "ostler.node.name": node };
}

/** Runs `work` as the active span, then ends the span. */
async function inSpan<T>(
  { api, contexts }: Tracing,
  { span, parent }: { readonly span: Span; readonly parent: Context },
  work: () => Promise<T>,
  ending: (answer: T) => void,
): Promise<T> {
  try {
    const answer = await contexts.with(api.trace.setSpan(parent, span), work);
    ending(answer);
    return answer;
  } catch (error) {
    // Only the name: a message may hold secrets.
    span.setStatus({ code: api.SpanStatusCode.ERROR, message: error instanceof Error ? error.name : "error" });
    throw error;
  } finally {
    span.end();
  }
}

/** Starts a span with predetermined ids in an operation's trace. */
function startSpanWithIds(
  tracing: Tracing,
  name: string,
  ids: SpanIds & { readonly parent?: string },
  options: SpanOptions,
): Span {
  const { trace, parent } = ids;
  const context = parent === undefined ? tracing.api.ROOT_CONTEXT : childOf(tracing, { trace, span: parent });
  return tracing.withIds(ids, () => tracing.tracer.startSpan(name, options, context));
}

/** A context whose new spans are children of the span with these ids. */
function childOf(tracing: Tracing, ids: SpanIds): Context {
  const { ROOT_CONTEXT, trace } = tracing.api;
  return trace.setSpanContext(ROOT_CONTEXT, remoteContext(tracing, ids));
}

function remoteContext({ api }: Tracing, ids: SpanIds): SpanContext {
  return { traceId: ids.trace, spanId: ids.span, traceFlags: api.TraceFlags.SAMPLED, isRemote: true };
}

function callerContext({ api, propagator }: Tracing, traceparent: string): Context {
  const getter = {
    get: (carrier: Record<string, string>, key: string) => carrier[key],
    keys: (carrier: Record<string, string>) => Object.keys(carrier),
  };
  return propagator.extract(api.ROOT_CONTEXT, { traceparent }, getter);
}

/** A trace id from a UUID. */
function traceIdOf(uuid: string): string {
  return uuid.replaceAll("-", "");
}

/** A span id: the first half of a UUID. */
function spanIdOf(uuid: string): string {
  return traceIdOf(uuid).slice(0, 16);
}
