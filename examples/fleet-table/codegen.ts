/** Types and documents, generated from the schema and src/api/documents.graphql: `npm run generate`. */
import type { CodegenConfig } from "@graphql-codegen/cli";

const config: CodegenConfig = {
  schema: "../../schema.graphql",
  documents: "src/api/documents.graphql",
  generates: {
    "src/api/generated/": {
      preset: "client",
      presetConfig: { fragmentMasking: false },
      config: {
        useTypeImports: true,
        // A newer service may send values that this build does not know, so every switch needs a default branch.
        futureProofEnums: true,
        strictScalars: true,
        scalars: { DateTime: "string", UUID: "string", JSON: "unknown", ByteCount: "number" },
      },
    },
  },
};

export default config;
