/** The program of the package `ostler-cli`. */
import { runCli } from "./main.ts";

await runCli(process.argv.slice(2));
