/**
 * Rules for migrations while replicas of the previous release run (docs/decisions/0011): a migration adds, and whatever
 * it adds does not hinder those who know nothing of it. A statement that does more names the decision that allows it,
 * as `-- decision 0012: why`; one that takes away belongs in a migration whose name states which release no longer
 * needs it.
 */

/** Kinds of statements on tables that are there already, and what is wrong with each. */
const TAKES_AWAY: readonly (readonly [RegExp, string])[] = [
  [
    /^drop (table|view|materialized view|schema|type|sequence|function|trigger)\b/,
    "takes away what the release before may use",
  ],
  [/^alter table .*\bdrop (column|constraint(?! \S+_fkey\b))\b/, "takes away what the release before may use"],
  [/\brename\b/, "renames what the release before knows by its old name"],
];
const HINDERS: readonly (readonly [RegExp, string])[] = [
  [
    /^alter table .*\balter column\b.*\b(set data )?type\b/,
    "rewrites the whole table under a lock, and the release before may not know the type",
  ],
  [
    /^alter table .*\balter column\b.*\bset not null\b/,
    "refuses rows that the release before writes, and reads the whole table under a lock",
  ],
  [
    /^alter table .*\badd column\b(?!.*\bdefault\b).*\bnot null\b/,
    "refuses rows that the release before writes; give it a default",
  ],
  [
    /^alter table .*\badd column\b.*\bdefault\b.*\b(random|clock_timestamp|gen_random_uuid|uuidv7|nextval)\b/,
    "rewrites the whole table under a lock",
  ],
  [
    /^alter table .*\badd (constraint|check|foreign key|unique|primary key)\b(?!.*\bnot valid\b)/,
    "reads the whole table under a lock; say NOT VALID, and validate it in the next release",
  ],
  [/^alter table .*\bdrop constraint\b/, "gives up a reference; say in a decision what takes its place"],
  [/^create unique index\b/, "refuses rows that the release before may write"],
  [
    /^create index\b(?! if not exists)/,
    "holds up all writes of the table while it is made; say IF NOT EXISTS, so that a large table's can be made before the upgrade, with CONCURRENTLY",
  ],
  [/^(update|delete|truncate|insert)\b/, "may take long, in one transaction; let the engine do it bit by bit"],
  [/^create (or replace )?(trigger|rule)\b/, "changes what the release before does, behind its back"],
  [/^alter type\b/, "may not be known to the release before"],
  [/^(vacuum|cluster|reindex|lock)\b/, "blocks all other statements"],
];
const DECISION = /--\s*decision (\d{4}):\s*\S/;
const NEEDS = /__needs_\d{14}$/;

export interface Flaw {
  readonly statement: string;
  readonly why: string;
}

/** `isDecided`: whether there is a decision of that number. */
export function flawsOfMigration(name: string, text: string, isDecided: (number: string) => boolean): Flaw[] {
  const statements = text
    .split("--> statement-breakpoint")
    .map((raw) => ({ raw, plain: plain(raw) }))
    .filter(({ plain: statement }) => statement !== "");
  const made = new Set(
    statements.flatMap(({ plain: statement }) => /^create table (?:if not exists )?(\S+)/.exec(statement)?.[1] ?? []),
  );
  return statements.flatMap(({ raw, plain: statement }) => {
    if (made.has(tableOf(statement) ?? "")) return [];
    const away = TAKES_AWAY.find(([pattern]) => pattern.test(statement));
    const found = away ?? HINDERS.find(([pattern]) => pattern.test(statement));
    if (!found) return [];
    const decision = DECISION.exec(raw)?.[1];
    const allowed = decision !== undefined && isDecided(decision);
    if (allowed && away && !NEEDS.test(name))
      return [
        {
          statement,
          why: `${found[1]}; its migration's name must end with __needs_ and the time of the migration since which no release uses it`,
        },
      ];
    return allowed ? [] : [{ statement, why: found[1] }];
  });
}

/** Without comments, quotes and upper case, in one line. */
function plain(statement: string): string {
  return statement
    .replace(/--.*$/gm, "")
    .replaceAll('"', "")
    .replace(/\s+/g, " ")
    .trim()
    .replace(/;$/, "")
    .toLowerCase();
}

function tableOf(statement: string): string | undefined {
  return (
    /^alter table (?:only )?(?:if exists )?(\S+)/.exec(statement)?.[1] ??
    /^create (?:unique )?index .*? on (?:only )?([^\s(]+)/.exec(statement)?.[1] ??
    /^create (?:or replace )?trigger .*? on (\S+)/.exec(statement)?.[1] ??
    /^(?:update|insert into|delete from|truncate(?: table)?) (\S+)/.exec(statement)?.[1]
  );
}
