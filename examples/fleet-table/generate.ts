/**
 * `npm run generate`: types and documents from the schema and `src/documents.graphql`. An application of its own has
 * the package @graphql-codegen/cli, and runs `graphql-codegen --config codegen.json`.
 */
import { fileURLToPath } from "node:url";
import { generateClientPreset } from "../../test/clients/generate.ts";

await generateClientPreset(fileURLToPath(new URL(".", import.meta.url)));
