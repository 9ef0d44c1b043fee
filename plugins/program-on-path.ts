/** Finds the programs that drivers start. */
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

export function programOnPath(name: string): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      if (statSync(file).isFile()) return file;
    } catch {
      // Not in this folder; try the next.
    }
  }
  return undefined;
}
