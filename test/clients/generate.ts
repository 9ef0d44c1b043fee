/**
 * Generates the output of `graphql-codegen` and `gql.tada generate-output` with their packages; the commands would add
 * a compiler or a hundred packages.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { preset } from "@graphql-codegen/client-preset";
import { codegen } from "@graphql-codegen/core";
import { minifyIntrospection, outputIntrospectionFile } from "gql.tada/internal";
import { buildSchema, introspectionFromSchema, parse } from "graphql";

interface CodegenConfig {
  readonly schema: string;
  readonly documents: string;
  readonly generates: Readonly<
    Record<
      string,
      { readonly preset: "client"; readonly presetConfig?: object; readonly config: Record<string, unknown> }
    >
  >;
}

/** Writes the output that a project's codegen.json lists. Throws if a document does not match the schema. */
export async function generateClientPreset(folder: string): Promise<void> {
  const read = (name: string) => readFile(join(folder, name), "utf8");
  const { schema, documents, generates } = JSON.parse(await read("codegen.json")) as CodegenConfig;
  const [sdl, rawSDL] = await Promise.all([read(schema), read(documents)]);
  for (const [output, { config, presetConfig = {} }] of Object.entries(generates)) {
    await mkdir(join(folder, output), { recursive: true });
    const sections = await preset.buildGeneratesSection({
      baseOutputDir: `${join(folder, output)}/`,
      schema: parse(sdl),
      schemaAst: buildSchema(sdl),
      documents: [{ location: documents, rawSDL, document: parse(rawSDL) }],
      config,
      presetConfig,
      plugins: [],
      pluginMap: {},
    });
    for (const section of sections) await writeFile(section.filename, await codegen(section));
  }
}

/** Writes a project's introspection.d.ts, from which gql.tada reads the schema. */
export async function generateTada(folder: string): Promise<void> {
  const schema = buildSchema(await readFile(join(folder, "schema.graphql"), "utf8"));
  const introspection = minifyIntrospection(introspectionFromSchema(schema, { descriptions: false }));
  await writeFile(
    join(folder, "introspection.d.ts"),
    outputIntrospectionFile(introspection, { fileType: ".d.ts", shouldPreprocess: true }),
  );
}
