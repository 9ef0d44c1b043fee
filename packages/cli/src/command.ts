/** An entry of the table of commands. */
import type { DiscoverFlags } from "./fleet.ts";
import type { GroupFlags } from "./host-groups.ts";
import type { ListFlags } from "./operations.ts";
import type { ContextFlags } from "./own.ts";
import type { SelectionFlags } from "./selection.ts";
import type { GlobalFlags, Session } from "./session.ts";
import type { VerbFlags } from "./work.ts";

export interface Flag {
  /** As commander has it: `-g, --host-group <name>`. */
  readonly form: string;
  readonly text: string;
  readonly isRepeated?: boolean;
  /** Words of the value, for completion. */
  readonly words?: readonly string[];
}

export type Flags = GlobalFlags & SelectionFlags & VerbFlags & ListFlags & DiscoverFlags & ContextFlags & GroupFlags;

export interface Command {
  /** As in `clusters vars set`. */
  readonly path: string;
  /** As commander has them: `<name> [nodes...]`. */
  readonly args?: readonly string[];
  readonly summary: string;
  readonly example: string;
  readonly flags?: readonly Flag[];
  /** Words of the first argument, for completion. */
  readonly words?: readonly string[];
  run(session: Session, args: readonly string[], flags: Flags): Promise<number> | number;
}
