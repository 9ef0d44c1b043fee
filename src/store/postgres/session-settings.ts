/**
 * The settings of sessions that the code relies on, whatever the defaults of the role, the database and the server are.
 * A pooler rejects most of them: behind one, the defaults must suit.
 */

/**
 * Transactions lock the rows that they decide about, which other isolation levels would answer with serialization
 * failures. Positions are read as floats, and labels by a GIN index.
 */
const SESSION_SETTINGS = {
  default_transaction_isolation: "read committed",
  default_transaction_read_only: "off",
  default_transaction_deferrable: "off",
  statement_timeout: "0",
  lock_timeout: "0",
  transaction_timeout: "0",
  idle_in_transaction_session_timeout: "0",
  idle_session_timeout: "0",
  DateStyle: "ISO, MDY",
  TimeZone: "UTC",
  IntervalStyle: "postgres",
  bytea_output: "hex",
  standard_conforming_strings: "on",
  extra_float_digits: "1",
  array_nulls: "on",
  transform_null_equals: "off",
  gin_fuzzy_search_limit: "0",
  exit_on_error: "off",
  synchronous_commit: "on",
} as const;

/** Settings of the server by name, in its units. */
export type Settings = Readonly<Record<string, string>>;

/** No statement takes as long, in milliseconds: behind a pooler, such a timeout of the server may stay. */
const LONG_MS = 60_000;
const UTC = /^(?:Etc\/)?(?:UTC|UCT|GMT|Zulu|Universal)$/;

/** The settings that a session sets, without those that this server does not know. */
export function ownSettings(shown: Settings): Settings {
  return Object.fromEntries(
    Object.entries(SESSION_SETTINGS).filter(
      ([name]) => name in shown && (name !== "synchronous_commit" || shown[name] === "off"),
    ),
  );
}

/** Settings that must be other ones, with the values that they need. */
export function unsuitable(shown: Settings): Settings {
  return Object.fromEntries(
    Object.entries(SESSION_SETTINGS).filter(([name, value]) => !suits(name, value, shown[name] ?? value)),
  );
}

function suits(name: string, value: string, present: string): boolean {
  if (name.endsWith("_timeout") && Number(present) >= LONG_MS) return true;
  if (name === "TimeZone") return UTC.test(present);
  // Other values only choose for which copies a commit waits.
  if (name === "synchronous_commit") return present !== "off";
  return present === value;
}
