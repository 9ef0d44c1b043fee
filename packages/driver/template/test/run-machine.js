/** Runs the simulated machine of settings.example.json until it is stopped. */
import { readFileSync } from "node:fs";
import { startMachine } from "./machine.js";

const { port, token } = JSON.parse(readFileSync(new URL("../settings.example.json", import.meta.url), "utf8"));
await startMachine(token, port);
console.log(`The simulated machine listens on port ${port}.`);
