/** Streams of changes: the types of their items, and the arguments with which they begin. */
import type { ChangeStreamItem } from "../../../feed/change-stream.ts";
import { builder } from "../../base/builder.ts";
import type { FieldArgs } from "../../base/builder.ts";
import { badInput, changeCursorOf } from "../../base/connection.ts";
import { logCursorText } from "../../base/log-cursor.ts";
import type { BroughtRows } from "../../base/loaders.ts";
import { globalId } from "../../base/ids.ts";
import type { EventKey } from "../../execution/event-scope.ts";
import { StreamBookmarkRef, StreamResetRef } from "./streams.ts";

type AnyItem = ChangeStreamItem<BroughtRows[keyof BroughtRows], string>;
type Of<Kind extends AnyItem["kind"]> = Extract<AnyItem, { kind: Kind }>;

/** Objects that a stream of changes follows. */
interface FollowedType<Kind extends keyof BroughtRows = keyof BroughtRows> {
  /** Of the type, such as `Operation`. */
  readonly name: "Node" | "Operation" | "Run" | "Cluster";
  /** Of the field with the object. */
  readonly field: Kind;
  readonly type: ReturnType<typeof builder.objectRef<BroughtRows[Kind]>>;
  readonly changed: ReturnType<typeof builder.enumType>;
  readonly texts: {
    readonly upserted: string;
    /** Of `changed`, when it is null. */
    readonly isNew: string;
    /** Null if objects cannot leave. */
    readonly left: string | null;
  };
  /** Members of the item of an object that left. */
  readonly leftMembers: readonly ("uuid" | "name" | "deleted")[];
}

const CURSOR = {
  description: "Position in the log of changes: everything up to it has been delivered.",
  resolve: ({ cursor }: AnyItem) => logCursorText(cursor),
};

/** The union of the items of a stream of changes. */
export function changeUnion<Kind extends keyof BroughtRows>(of: FollowedType<Kind>): ReturnType<typeof unionOf>;
// Pothos cannot resolve the type of the object for a generic row, so the fields are made for any object.
export function changeUnion(of: FollowedType): ReturnType<typeof unionOf> {
  const upserted = builder.objectRef<Of<"upserted">>(`${of.name}Upserted`).implement({
    description: of.texts.upserted,
    fields: (t) => ({
      cursor: t.string(CURSOR),
      at: t.expose("at", {
        type: "DateTime",
        description: "Time of the newest of the changes; in a snapshot, time of sending.",
      }),
      [of.field]: t.field({
        type: of.type,
        description: `The ${of.field} as it is when the item is made, which may be newer than \`cursor\`, and is never older than in an earlier item of the stream.`,
        resolve: ({ row }, _args, { brought }) => brought(of.field, row),
      }),
      changed: t.field({
        type: [of.changed],
        nullable: true,
        description: `What has changed, of one or of several changes; empty if only \`revision\` has. Null if the ${of.field} is new to the reader: ${of.texts.isNew}.`,
        resolve: ({ changed }) => (changed === null ? null : [...changed]),
      }),
    }),
  });
  return unionOf(of.name, of.texts.left === null ? [upserted] : [upserted, leftType(of, of.texts.left)]);
}

function leftType({ name, field, leftMembers }: FollowedType, description: string) {
  // The log records the name of a node before each change.
  const isNamed = name === "Node";
  const has = (member: FollowedType["leftMembers"][number]) => leftMembers.includes(member);
  return builder.objectRef<Of<"left">>(`${name}Left`).implement({
    description,
    fields: (t) => ({
      cursor: t.string(CURSOR),
      at: t.expose("at", { type: "DateTime", description: "Time of the change." }),
      id: t.id({ description: `Global ID of the ${field}.`, resolve: ({ id }) => globalId(name, id) }),
      ...(has("uuid") && { uuid: t.expose("id", { type: "UUID", description: `UUID of the ${field}.` }) }),
      ...(has("name") && {
        name: t.exposeString("name", {
          description: `Name of the ${field}${isNamed ? "" : "; empty if it was renamed and then deleted"}.`,
        }),
      }),
      ...(has("deleted") && {
        deleted: t.exposeBoolean("deleted", { description: `Whether the ${field} was deleted.` }),
      }),
    }),
  });
}

type ItemRef = ReturnType<ReturnType<typeof builder.objectRef<AnyItem>>["implement"]>;

function unionOf(name: string, own: readonly object[]) {
  return builder.unionType(`${name}Change`, {
    description: `Item of the stream \`${name.toLowerCase()}Changes\`. Every item has a cursor: after a disconnect, subscribe again with \`after: <last cursor>\`.`,
    types: [...(own as ItemRef[]), StreamBookmarkRef, StreamResetRef],
    resolveType: (item) => {
      const { kind } = item as AnyItem;
      return { upserted: `${name}Upserted`, left: `${name}Left`, bookmark: "StreamBookmark", reset: "StreamReset" }[
        kind
      ];
    },
  });
}

const numbers = new WeakMap<object, number>();
let numbered = 0;

/** A number that is the same for the same object only. */
function numberOf(row: object): number {
  const known = numbers.get(row);
  if (known !== undefined) return known;
  numbered += 1;
  numbers.set(row, numbered);
  return numbered;
}

/** Equal for items that look the same to all readers. */
export const changeKey: EventKey<AnyItem> = (item) => {
  const at = logCursorText(item.cursor);
  switch (item.kind) {
    case "upserted":
      return `u${at} ${numberOf(item.row)} ${item.changed?.join(",") ?? "new"}`;
    case "left":
      return `l${at} ${item.id} ${item.deleted}`;
    case "bookmark":
      return `b${at} ${item.snapshotComplete} ${item.caughtUp}`;
    case "reset":
      return null;
  }
};

/** The arguments with which a stream of changes begins. */
export function beginArgs(arg: FieldArgs, of: string) {
  return {
    after: arg.string({
      description:
        "Cursor of the last item received from any stream of changes, or `asOf` of a list. Cannot be combined with `snapshot`.",
    }),
    snapshot: arg.boolean({
      required: true,
      defaultValue: false,
      description: `Start with ${of}.`,
    }),
  };
}

/** Where a stream of changes begins. */
export function beginning({ after, snapshot }: { after?: string | null | undefined; snapshot: boolean }) {
  if (snapshot && after != null)
    throw badInput("Use either `after` to continue from a cursor, or `snapshot` to start again, not both.");
  return { after: changeCursorOf(after), snapshot };
}
