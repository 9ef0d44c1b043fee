/** Loaded before a program under test (`node --import`): at its end it writes its resources to a file. */
import { writeFileSync } from "node:fs";

process.on("exit", () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  const figures = { cpuMs: (userCPUTime + systemCPUTime) / 1000, peakMb: maxRSS / 1024 };
  writeFileSync(process.env.RESOURCE_FILE, JSON.stringify(figures));
});
