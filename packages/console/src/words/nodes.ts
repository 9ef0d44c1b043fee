/** A node in one sentence, from the fields of a row. */
import { sentenceCase } from "./states.ts";

export interface NodeFacts {
  readonly state: string;
  readonly powerDrift: boolean;
  readonly presence: string;
  readonly protected: boolean;
  readonly retired: boolean;
  readonly maintenance: { readonly reason: string } | null;
  readonly fault: { readonly message: string } | null;
  readonly lastError: { readonly message: string } | null;
}

/** Most messages name the node and the step. */
export function errorText({ step, message }: { readonly step: string | null; readonly message: string }): string {
  return step === null || message.includes(step) ? message : `${step}: ${message}`;
}

/** The marks of a node, each with its reason. */
export function marksOf(node: NodeFacts): readonly string[] {
  return [
    node.maintenance && `Maintenance: ${node.maintenance.reason}`,
    node.fault && `Fault: ${node.fault.message}`,
    node.presence === "DISAPPEARED" && "Disappeared",
    node.powerDrift && "Another power than was asked for",
    node.protected && "Protected",
    node.retired && "Retired",
  ].filter((mark) => typeof mark === "string");
}

export function nodeSentence(node: NodeFacts): string {
  return [sentenceCase(node.state), node.lastError?.message, ...marksOf(node)]
    .filter((part) => part != null)
    .join(" · ");
}
