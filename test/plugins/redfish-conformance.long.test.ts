/** The driver `redfish` passes the conformance suite on BMCs with traits of vendors. */
import { declareRedfishConformance } from "../support/redfish-conformance.ts";

await declareRedfishConformance("idrac-like");
await declareRedfishConformance("xcc-like");
