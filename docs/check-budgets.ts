/**
 * `npm run tool -- budgets`: counts the lines of code, without blanks and comments, of each directory in budgets.txt,
 * and fails for one that has more than its budget, or no code. A line of that file is raised in a commit of its own,
 * which says what it bought.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const COMMENT = /^\s*(\/\/|\/?\*|$)/;

const budgets = readFileSync(join(ROOT, "budgets.txt"), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => {
    const [directory = "", budget = ""] = line.split(/\s+/);
    return { directory, budget: Number(budget), lines: linesOf(directory) };
  });

for (const { directory, budget, lines } of budgets) {
  if (process.argv.includes("--all")) console.log(`${directory}: ${lines} of ${budget}`);
  if (lines === 0) {
    process.exitCode = 1;
    console.error(`budgets.txt names ${directory}, which has no code. Correct the name, or remove the line.`);
  }
  if (lines > budget) {
    process.exitCode = 1;
    console.error(
      `${directory} has ${lines} lines of code, ${lines - budget} more than its budget in budgets.txt. Take some out, or raise the budget in a commit that says what it bought.`,
    );
  }
}

function linesOf(directory: string): number {
  return globSync("**/*.{ts,tsx,css}", { cwd: join(ROOT, directory), exclude: ["**/node_modules/**"] })
    .flatMap((file) => readFileSync(join(ROOT, directory, file), "utf8").split("\n"))
    .filter((line) => !COMMENT.test(line)).length;
}
