/** Waves of an operation: their inputs, and the mutations that start the next wave, halt the operation or resume it. */
import type { WavesAnswer } from "../../../engine/scheduling/waves.ts";
import type { Share, WaveOptions } from "../../../lifecycle/waves.ts";
import { builder, given } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import { keyOf } from "../../base/ids.ts";
import { inputName, payloadName, refusalFields } from "../../base/payload.ts";
import { operationField } from "../../base/shared-fields.ts";

export const ShareInput = builder.inputType("ShareInput", {
  description: "Number of nodes, absolute or relative to those of the operation or the host group. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    count: t.int({ description: "Number of nodes." }),
    percent: t.float({ description: "Percentage of the nodes, at most 100." }),
  }),
});

export const WavesInput = builder.inputType("WavesInput", {
  description: "Start the nodes in waves, in the order of the request: a wave starts when the previous one has ended.",
  fields: (t) => ({
    sizes: t.field({
      type: [ShareInput],
      required: true,
      description:
        "Size of each wave, 1 to 1000 entries. The last size is repeated until every node has a wave. Percentages are rounded up.",
    }),
    pauseSeconds: t.int({ description: "Pause between two waves in seconds, 0 to 2592000. Default 0." }),
    manual: t.boolean({
      required: true,
      defaultValue: false,
      description: "Whether every wave after the first waits for advanceWaves.",
    }),
    maxFailures: t.field({
      type: ShareInput,
      description:
        "Number of nodes that may fail. With one more failure, no further node starts until resumeWaves. Percentages are rounded down. No limit by default.",
    }),
  }),
});

/** The waves of a verb's input as the engine takes them. */
export function wavesOf({ sizes, pauseSeconds, manual, maxFailures }: typeof WavesInput.$inferInput): WaveOptions {
  return {
    sizes: sizes.map(shareOf),
    pauseSeconds: given(pauseSeconds),
    manual,
    maxFailures: maxFailures ? shareOf(maxFailures) : undefined,
  };
}

export function shareOf({ count, percent }: typeof ShareInput.$inferInput): Share {
  return count == null ? { percent: percent ?? 0 } : { count };
}

// ---- mutations

/** Of all mutations of waves. */
export const WavesPayloadRef = builder.interfaceRef<WavesAnswer>("WavesPayload").implement({
  description: "Answer to a mutation of waves.",
  fields: (t) => ({
    operation: operationField(
      t,
      "The operation after the change, or as it is with `dryRun`; null if the request was refused.",
    ),
    ...refusalFields(t, "Reasons why the request was refused; empty if it succeeded."),
  }),
});

const WAVE_MUTATIONS = [
  ["advanceWaves", "ADVANCE", "Start the next wave now, even if the previous one has not ended; also after a halt."],
  [
    "haltWaves",
    "HALT",
    "Start no further node of the operation; active runs continue. `Rollout.reason` has the reason.",
  ],
  ["resumeWaves", "RESUME", "Continue after a halt. Failures so far no longer count toward `maxFailures`."],
] as const;

for (const [name, action, description] of WAVE_MUTATIONS)
  addMutation(name, {
    scope: "OPERATE",
    description,
    input: builder.inputType(inputName(name), {
      description: `Operation of ${name}.`,
      fields: (t) => ({
        operationId: t.id({ required: true, description: "Global ID or raw UUID of the operation." }),
        reason: t.string({ description: "Reason; shown with the operation while it is halted." }),
        dryRun: t.boolean({
          required: true,
          defaultValue: false,
          description: "Only return a `forecast`. Nothing is written, and nothing is locked.",
        }),
      }),
    }),
    argument: "The operation.",
    payload: builder.objectRef<WavesAnswer>(payloadName(name)).implement({
      description: `Answer to ${name}.`,
      interfaces: [WavesPayloadRef],
    }),
    run: ({ operationId, reason, dryRun }, engine, caller) =>
      engine.steerWaves(caller, {
        operationId: keyOf("Operation", operationId),
        action,
        reason: given(reason),
        dryRun,
      }),
  });
