/** The driver `redfish` passes the conformance suite. Other kinds of BMCs: redfish-conformance.long.test.ts. */
import { declareRedfishConformance } from "../support/redfish-conformance.ts";

await declareRedfishConformance("reference");
