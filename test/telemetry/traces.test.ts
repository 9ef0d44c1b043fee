/** Traces as an OpenTelemetry collector receives them; the collector is a small server of this test. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createLog } from "../../src/log.ts";
import { createTraces } from "../../src/telemetry/traces.ts";
import type { Traces } from "../../src/telemetry/traces.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status?: { readonly code?: number };
}

interface Sent {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes };
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<Span, "attributes"> & { readonly attributes?: Attributes })[];
    }[];
  }[];
}
type Attributes = readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];

const valuesOf = (attributes: Attributes = []) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

/** Collects requests to /v1/traces. */
async function collector() {
  const spans: Span[] = [];
  const resources: Record<string, unknown>[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      for (const { resource, scopeSpans } of (JSON.parse(body) as Sent).resourceSpans) {
        resources.push(valuesOf(resource.attributes));
        for (const sent of scopeSpans)
          spans.push(...sent.spans.map((span) => ({ ...span, attributes: valuesOf(span.attributes) })));
      }
      response.setHeader("content-type", "application/json").end("{}");
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    spans,
    resources,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => void (server.closeAllConnections(), server.close()),
  };
}

let collected: Awaited<ReturnType<typeof collector>>;
beforeEach(async () => {
  collected = await collector();
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.url);
});
afterEach(() => {
  vi.unstubAllEnvs();
  collected.close();
});

const hexOf = (uuid: string) => uuid.replaceAll("-", "");

describe("traces of a commission", () => {
  test("the request's trace continues the caller's, and the operation's trace with runs, steps and calls has the operation's id", async () => {
    await using ostler = await serviceUnderTest({ watched: true });
    const [name = ""] = await ostler.register(1);
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const answer = await ostler.ask<{ commissionNodes: { operation: { uuid: string } } }>(
      `mutation Take { commissionNodes(input: { nodes: { names: ["${name}"] } }) { operation { uuid } } }`,
      {},
      { traceparent, "x-request-id": "asked-1" },
    );
    const operationId = answer.data?.commissionNodes.operation.uuid ?? "";
    expect(await ostler.operationEnds(operationId)).toBe("SUCCEEDED");
    const run = await eventually("the run's span is exported", () =>
      collected.spans.find((span) => span.name === `run ${name}`),
    );

    const request = collected.spans.find((span) => span.attributes["ostler.request.id"] === "asked-1");
    expect(request).toMatchObject({
      name: "graphql mutation",
      traceId: "0af7651916cd43dd8448eb211c80319c",
      parentSpanId: "b7ad6b7169203331",
      attributes: { "graphql.operation.name": "Take", "ostler.outcome": "ok" },
    });
    const admission = collected.spans.find((span) => span.name === "admission commission");
    expect(admission).toMatchObject({
      traceId: request?.traceId,
      parentSpanId: request?.spanId,
      attributes: { "ostler.operation.id": operationId, "ostler.nodes": 1 },
    });
    const operation = collected.spans.find((span) => span.name === "operation commission");
    expect(operation).toMatchObject({
      traceId: hexOf(operationId),
      spanId: hexOf(operationId).slice(0, 16),
      links: [{ traceId: admission?.traceId, spanId: admission?.spanId }],
    });
    expect(admission?.links).toMatchObject([{ traceId: operation?.traceId, spanId: operation?.spanId }]);

    const runId = String(run.attributes["ostler.run.id"]);
    expect(run).toMatchObject({
      traceId: operation?.traceId,
      spanId: hexOf(runId).slice(0, 16),
      parentSpanId: operation?.spanId,
      attributes: { "ostler.node.name": name, "ostler.outcome": "succeeded" },
    });
    const step = collected.spans.find((span) => span.name === "inspect.collect_inventory");
    expect(step).toMatchObject({
      traceId: operation?.traceId,
      parentSpanId: run.spanId,
      attributes: {
        "ostler.operation.id": operationId,
        "ostler.run.id": runId,
        "ostler.node.name": name,
        "ostler.attempt": expect.anything() as unknown,
        "ostler.outcome": "done",
      },
    });
    const call = collected.spans.find((span) => span.name === "fake inspect.collect_inventory");
    expect(call).toMatchObject({
      traceId: operation?.traceId,
      parentSpanId: step?.spanId,
      attributes: { "ostler.driver": "fake", "ostler.node.name": name },
    });
    expect(collected.resources[0]).toMatchObject({ "service.name": "ostler", "service.version": "0.0.0-test" });
  });

  test("a failed step has an error status, and an unsampled caller's request is not sampled", async () => {
    await using ostler = await serviceUnderTest({ watched: true });
    const [name = ""] = await ostler.register(1, { steps: { "inspect.collect_inventory": { fail: "no answer" } } });
    await ostler.ask(
      "query Quiet { nodes { totalCount } }",
      {},
      { traceparent: "00-11111111111111111111111111111111-2222222222222222-00" },
    );
    expect(await ostler.operationEnds(await ostler.begin("commissionNodes", [name]))).toBe("FAILED");
    await eventually("the run's span is exported", () => collected.spans.find((span) => span.name === `run ${name}`));
    expect(collected.spans.find((span) => span.name === "inspect.collect_inventory")).toMatchObject({
      attributes: { "ostler.outcome": "failed", "ostler.code": "BACKEND_FAILED" },
      status: { code: 2, message: "no answer" },
    });
    expect(collected.spans.filter((span) => span.attributes["graphql.operation.name"] === "Quiet")).toEqual([]);
  });
});

/** Ends the traces as well, so that all spans are exported. */
async function traceOneStep(traces: Traces | null): Promise<void> {
  if (!traces) throw new Error("There are no traces.");
  const ids = { operationId: crypto.randomUUID(), runId: crypto.randomUUID() };
  await traces.observer.step({ ...ids, node: "n", step: "a.b", driver: "fake", attempt: 1, part: "RUN" }, () =>
    Promise.resolve({ kind: "done" }),
  );
  await traces[Symbol.asyncDispose]();
}

describe("without traces", () => {
  const made = (environment: NodeJS.ProcessEnv) =>
    createTraces({ version: "0", log: createLog("silent"), environment });

  test.each([
    ["an empty environment", {}],
    ["OTEL_SDK_DISABLED", { OTEL_SDK_DISABLED: "true", OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" }],
    ["the exporter none", { OTEL_TRACES_EXPORTER: "none", OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" }],
    ["an unknown exporter", { OTEL_TRACES_EXPORTER: "zipkin" }],
  ])("no traces are exported with %s", async (_where, environment) => {
    expect(await made(environment)).toBeNull();
  });

  test("no operation is traced at a sampling ratio of 0", async () => {
    await using traces = await made({
      OTEL_EXPORTER_OTLP_ENDPOINT: collected.url,
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0",
    });
    await traceOneStep(traces);
    expect(collected.spans).toEqual([]);
  });
});

test("empty OTEL_ variables count as unset", async () => {
  await using traces = await createTraces({
    version: "0",
    log: createLog("silent"),
    environment: {
      OTEL_EXPORTER_OTLP_ENDPOINT: "",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: collected.url,
      OTEL_TRACES_EXPORTER: "",
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "",
    },
  });
  await traceOneStep(traces);
  expect(collected.spans).toMatchObject([{ name: "a.b" }]);
});

test("an unreachable collector delays nothing", async () => {
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
  await using ostler = await serviceUnderTest({ watched: true });
  await ostler.commission(await ostler.register(2), "AVAILABLE");
});
