/** Reads the metrics of a scrape. */

/** Values by name and labels, as in `ostler_runs_started_total{purpose="work"}`. */
export type Samples = ReadonlyMap<string, number>;

export function samplesOf(text: string): Samples {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line): [string, number] => [
      line.slice(0, line.lastIndexOf(" ")),
      Number(line.slice(line.lastIndexOf(" ") + 1)),
    ]),
  );
}

export async function scraped(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Samples> {
  const response = await fetch(`${url}/metrics`, { headers });
  if (response.status !== 200) throw new Error(`/metrics answers ${response.status}.`);
  return samplesOf(await response.text());
}
