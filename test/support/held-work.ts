/** Work on a new node that waits inside of a step. */
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import { aGate } from "./builders.ts";
import type { EngineUnderTest, TestGate, TestNode } from "./builders.ts";

export interface HeldWork {
  readonly gate: TestGate;
  readonly node: TestNode;
  /** The operation. */
  readonly id: string;
}

/** A deployment or a cleaning, after the interface of the step, of an AVAILABLE node; it waits until the gate opens. */
export async function heldIn(
  ostler: EngineUnderTest,
  step: `${"deploy" | "clean"}.${string}`,
  more?: Partial<VerbRequest>,
): Promise<HeldWork> {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ [step]: { gate: gate.name } })
    .made();
  const id = await ostler.begin(step.startsWith("deploy.") ? "DEPLOY" : "CLEAN", [node], more);
  await gate.arrivals();
  return { gate, node, id };
}
