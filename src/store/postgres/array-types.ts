/**
 * The types of arrays in statements, for postgres.js. Version 3.4.9 would read the types of the server on each new
 * connection, and reject a promise that has no receiver if the connection is lost meanwhile. An array of any other type
 * is a text.
 */
import { makePgArray } from "drizzle-orm/pg-core";

/** As in the catalogue `pg_type`. A bigint is a text, as outside of arrays. */
const OIDS = { text: 1009, uuid: 2951, bigint: 1016, smallint: 1005, integer: 1007, real: 1021, double: 1022 };

export const ARRAY_TYPES = {
  texts: arraysOf([OIDS.text, OIDS.uuid, OIDS.bigint], String),
  numbers: arraysOf([OIDS.integer, OIDS.smallint, OIDS.real, OIDS.double], Number),
};

/** An element of an array literal: in quotes, or as it is. */
const ELEMENT = /"((?:[^"\\]|\\.)*)"|[^,]+/gs;

/** Of a list, not of an array of arrays. Drizzle's `parsePgArray` returns the text NULL for null. */
function elementsOf(literal: string): (string | null)[] {
  return Array.from(literal.slice(1, -1).matchAll(ELEMENT), ([plain, quoted]) =>
    quoted === undefined ? (plain === "NULL" ? null : plain) : quoted.replaceAll(/\\(.)/gs, "$1"),
  );
}

function arraysOf(oids: readonly [number, ...number[]], parse: (value: string) => unknown) {
  return {
    to: oids[0],
    from: [...oids],
    // An array literal stays as it is.
    serialize: (value: unknown) => (Array.isArray(value) ? makePgArray(value) : value),
    parse: (literal: string) => elementsOf(literal).map((element) => (element === null ? null : parse(element))),
  };
}
