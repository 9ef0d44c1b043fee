/** Single reads. Nothing reads again by time alone: what a stream shows to have changed is invalidated. */
import { useRef } from "react";
import { QueryClient, useQuery } from "@tanstack/react-query";
import type { Answers } from "../../requests.ts";
import { RequestError, request } from "./request.ts";
import type { RequestName, Variables } from "./request.ts";

/** Failures of a read that are shown beside older data. */
const FAILURES_SHOWN = 4;
const LONGEST_PAUSE_MS = 10_000;

export interface Read<Data> {
  readonly data: Data | undefined;
  /** Of the last attempt, also while another one follows. */
  readonly error: Error | null;
  readonly refetch: () => unknown;
}

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: Infinity,
      gcTime: 60_000,
      refetchOnWindowFocus: false,
      networkMode: "always",
      refetchOnReconnect: true,
      retry: (_, error) => error instanceof RequestError && error.isPassing,
      retryDelay: (tries) => Math.min(1_000 * 2 ** tries, LONGEST_PAUSE_MS),
    },
    mutations: { retry: false },
  },
});

/**
 * `version`: of what is read. With another one it is read again, and the older answer stays until then, also beside an
 * error; null: it is not read yet.
 */
export function useRequest<Name extends RequestName>(
  name: Name,
  variables: Variables,
  version: string | number | null = 0,
): Read<Answers[Name]> {
  const result = useQuery({
    queryKey: [name, variables, version],
    queryFn: ({ signal }) => request(name, variables, signal),
    enabled: version !== null,
  });
  const { refetch, error, failureCount, failureReason } = result;
  const last = useRef(result.data);
  if (result.data) last.current = result.data;
  const data = result.data ?? last.current;
  return { data, refetch, error: error ?? (data && failureCount < FAILURES_SHOWN ? null : failureReason) };
}
