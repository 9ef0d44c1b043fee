/**
 * Whether the data are live. Modes: loading (not all nodes are read), live, catching up (connected, before the missed
 * changes have arrived), not live (the service has ended the stream), reconnecting (data stay, with their age), refused
 * (no connection for ten seconds though the service answers: a proxy lets no WebSocket pass), signed out.
 */
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { shownSession, signedOut } from "../data/session.ts";
import { connection, fleet, useStore } from "../data/streams.ts";
import { numberText, timeText } from "../words/numbers.ts";

const PATIENCE_MS = 9_000;
/** Longer than the longest pause between two attempts. */
const RETRIES_MS = 11_000;

export function ConnectionStatus() {
  const { state, since } = useStore(connection);
  const { isLive, isWhole, items, error } = useStore(fleet);
  const isSignedOut = useSyncExternalStore(signedOut.subscribe, signedOut.get) !== null;
  const isBroken = state === "broken" || state === "connecting";
  const lostAt = useRef<Date | null>(null);
  if (state === "broken" || isLive) lostAt.current = isLive ? null : since;
  const hasConnected = useOnce(state === "connected");
  const isLong = useAfter(PATIENCE_MS, isBroken);
  const isAnswered = useAnswered(isLong);
  // A page that was live tries again meanwhile.
  const isRefused = useAfter(hasConnected ? RETRIES_MS : 0, isLong && isAnswered);
  useEffect(() => {
    document.documentElement.dataset["live"] = String(isLive || !isWhole);
  }, [isLive, isWhole]);
  if (isRefused && !isSignedOut)
    return (
      <span className="status" role="status" data-live="false">
        No live data: WebSocket is refused (docs/console.md)
      </span>
    );
  const text = isSignedOut
    ? "Signed out"
    : isLive
      ? "Live"
      : !isWhole
        ? `Loading ${numberText(items.size)}`
        : isBroken
          ? `Reconnecting, as of ${timeText(since, new Date())}`
          : error
            ? "Not live"
            : `Catching up${lostAt.current ? `, as of ${timeText(lostAt.current, new Date())}` : ""}`;
  return (
    <span className="status" role="status" data-live={isLive}>
      {text}
    </span>
  );
}

/** Whether a condition has ever been true. */
function useOnce(condition: boolean): boolean {
  const [wasTrue, setTrue] = useState(condition);
  if (condition && !wasTrue) setTrue(true);
  return wasTrue || condition;
}

/** Whether the service has answered since a condition is true. */
function useAnswered(condition: boolean): boolean {
  const [isAnswered, setAnswered] = useState(false);
  useEffect(() => {
    setAnswered(false);
    if (!condition) return;
    let isOver = false;
    shownSession().then(
      () => setAnswered(!isOver),
      () => {},
    );
    return () => void (isOver = true);
  }, [condition]);
  return isAnswered;
}

/** Whether a condition has been true for a time. */
function useAfter(ms: number, condition: boolean): boolean {
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    if (!condition) return setLong(false);
    const timer = setTimeout(() => setLong(true), ms);
    return () => clearTimeout(timer);
  }, [condition, ms]);
  return isLong;
}
