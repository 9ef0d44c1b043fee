/** Loaded when a stream begins: graphql-sse loads graphql too, for its server, which the packed file leaves out. */
export { createClient } from "graphql-sse";
