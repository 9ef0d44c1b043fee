/** Loaded before a server under test (`node --import`): reports its CPU time, in ms, on request. */
process.on("message", (message) => {
  if (message !== "cpu") return;
  const { user, system } = process.cpuUsage();
  process.send({ cpuMs: (user + system) / 1000 });
});
