/** The verbs of this page. All take nodes, a dry run and the hash of the plan that was shown. */
import type { TypedDocumentNode } from "urql";
import { CommissionDocument, InspectDocument, UndeployDocument } from "../api/generated/graphql.ts";
import type { AnswerFragment, CommissionNodesInput } from "../api/generated/graphql.ts";

/** The fields that the inputs of all verbs have. */
export type VerbInput = Pick<
  CommissionNodesInput,
  "nodes" | "acceptance" | "dryRun" | "idempotencyKey" | "planHash" | "reason"
>;

export type VerbDocument = TypedDocumentNode<{ readonly answer: AnswerFragment }, { readonly input: VerbInput }>;

export interface Verb {
  readonly name: string;
  readonly document: VerbDocument;
  /** Its effect on the accepted nodes. */
  readonly effect: string;
}

export const VERBS: readonly Verb[] = [
  {
    name: "Commission",
    document: CommissionDocument,
    effect: "Verifies, inspects, cleans and deploys. Cleaning and deployment erase the disks.",
  },
  { name: "Inspect", document: InspectDocument, effect: "Reads the hardware again. May restart the machine." },
  { name: "Undeploy", document: UndeployDocument, effect: "Ends the use of the machine and erases its disks." },
];
