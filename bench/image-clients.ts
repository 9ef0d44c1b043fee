/**
 * Thread of the subject `images`: clients that download an image again and again, and drop what they receive. Reports
 * when all of them receive, and the number of bytes at the end.
 */
import { get } from "node:http";
import type { IncomingMessage } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";

const { url, authorization, clients } = workerData as {
  readonly url: string;
  readonly authorization: string;
  readonly clients: number;
};

let receiving = 0;
let bytes = 0;
let isOver = false;

async function download(): Promise<void> {
  let isFirst = true;
  while (!isOver) {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      get(url, { headers: { authorization }, agent: false }, resolve).on("error", reject);
    });
    if (response.statusCode === 429) {
      // The listener limits how many requests of one address begin in a second.
      response.resume();
      await delay(200);
      continue;
    }
    if (response.statusCode !== 200) throw new Error(`The listener answered with status ${response.statusCode}.`);
    if (isFirst && (receiving += 1) === clients) {
      bytes = 0;
      parentPort?.postMessage("receiving");
    }
    isFirst = false;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (isOver) break;
    }
  }
}

parentPort?.once("message", () => {
  isOver = true;
  parentPort?.postMessage(bytes);
});
await Promise.all(Array.from({ length: clients }, download));
