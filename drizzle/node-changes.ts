/**
 * The SQL that records changes of nodes, made of the lists in src/store/log/change-fields.ts. `npm run tool -- migration`
 * adds the statements that differ from those of all migrations to the new one; `test/store/migrations.test.ts` fails
 * while one differs.
 */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { getTableColumns } from "drizzle-orm";
import {
  NODE_CHANGE_COLUMNS,
  NODE_COLUMNS_WITHOUT_FIELD,
  NODE_FILTER_COLUMNS,
} from "../src/store/log/change-fields.ts";
import { nodes } from "../src/store/tables.ts";

type Column = keyof typeof nodes.$inferSelect;

const TABLE = getTableColumns(nodes);
const inRow = (row: string) => (column: Column) => `${row}.${TABLE[column].name}`;

/** Facts that are not the value of the column. */
const OTHER_FACTS: { readonly [Name in Column]?: (value: string) => string } = {
  maintenanceSince: (value) => `'maintenance', ${value} IS NOT NULL`,
  retiredReason: (value) => `'retired', ${value} IS NOT NULL`,
  clusterId: (value) => `'clusterId', ${value},\n    'clusterName', cluster_name`,
  lastError: (value) => `'errorCode', ${value} ->> 'code'`,
};

function factsOf(row: string): string {
  const facts = NODE_FILTER_COLUMNS.map((column) => {
    const value = inRow(row)(column);
    return OTHER_FACTS[column]?.(value) ?? `'${column}', ${value}`;
  });
  return `jsonb_build_object(${facts.join(",\n    ")})`;
}

/** Whether one of the columns changes. */
function differs(columns: readonly Column[]): string {
  const [before, after] = ["OLD", "NEW"].map((row) => columns.map(inRow(row)).join(", "));
  return columns.length === 1 ? `${before} IS DISTINCT FROM ${after}` : `(${before}) IS DISTINCT FROM (${after})`;
}

const FIELDS = Object.entries<readonly Column[]>(NODE_CHANGE_COLUMNS).filter(([, columns]) => columns.length > 0);
const CASES = FIELDS.map(([field, columns]) => `CASE WHEN ${differs(columns)} THEN '${field}' END`);
const RECORDED = [...FIELDS.flatMap(([, columns]) => columns), ...NODE_COLUMNS_WITHOUT_FIELD];

/** By what creates them. */
export const NODE_CHANGE_STATEMENTS: Readonly<Record<string, string>> = {
  'FUNCTION "change_facts"': `-- What filters see of a node. Whether it is in maintenance or retired, not why.
CREATE OR REPLACE FUNCTION "change_facts"("node" "nodes", "cluster_name" text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT ${factsOf("node")} $$;`,

  'FUNCTION "record_node_change"': `CREATE OR REPLACE FUNCTION "record_node_change"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed text[]; facts jsonb; cluster_name text;
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields) VALUES ('NODE', NEW.id, 'CREATED', '{}');
    RETURN NULL;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO change_inbox (subject, subject_id, event, fields, before)
    VALUES ('NODE', OLD.id, 'DELETED', '{}', change_facts(OLD, (SELECT name FROM clusters WHERE id = OLD.cluster_id)));
    RETURN NULL;
  END IF;
  changed := array_remove(ARRAY[
      ${CASES.join(",\n      ")}
  ], NULL);
  -- A revision is visible, and \`ifRevision\` needs it, also if nothing else changed.
  IF changed = '{}' AND OLD.revision = NEW.revision THEN
    RETURN NULL;
  END IF;
  IF ${differs(NODE_FILTER_COLUMNS)} THEN
    IF OLD.cluster_id IS NOT NULL THEN
      cluster_name := (SELECT name FROM clusters WHERE id = OLD.cluster_id);
    END IF;
    -- As change_facts, which would be planned again in each transaction.
    facts := ${factsOf("OLD")};
  END IF;
  INSERT INTO change_inbox (subject, subject_id, event, fields, before) VALUES ('NODE', OLD.id, 'CHANGED', changed, facts);
  RETURN NULL;
END $$;`,

  'TRIGGER "nodes_recorded_update"': `-- decision 0037: a trigger records changes of every writer, also of the release before
CREATE OR REPLACE TRIGGER "nodes_recorded_update" AFTER UPDATE OF ${RECORDED.map((column) => `"${TABLE[column].name}"`).join(", ")} ON "nodes" FOR EACH ROW
  EXECUTE FUNCTION record_node_change();`,
};

const BREAK = "--> statement-breakpoint";

/** The statements that the migrations in a directory do not have, or had before another one. */
export function missingStatements(directory: string): readonly string[] {
  const present = readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .toSorted()
    .flatMap((name) => readFileSync(join(directory, name, "migration.sql"), "utf8").split(BREAK))
    .map(bare);
  return Object.entries(NODE_CHANGE_STATEMENTS)
    .filter(([what, text]) => present.findLast((one) => one.startsWith(`CREATE ${what}`)) !== bare(text))
    .map(([, text]) => text);
}

/** A migration with more statements. */
export function withStatements(migration: string, statements: readonly string[]): string {
  const own = bare(migration) === "" ? [] : [migration.trimEnd()];
  return `${[...own, ...statements].join(`\n${BREAK}\n`)}\n`;
}

/** A statement without the comments before it, and without its layout. */
function bare(statement: string): string {
  return statement
    .replace(/^(\s*--[^\n]*(\n|$))*/, "")
    .replace("CREATE OR REPLACE ", "CREATE ")
    .replaceAll(/\s+/g, " ")
    .trim();
}
