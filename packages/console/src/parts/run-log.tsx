/** The log of a run, live: it follows the end until a reader scrolls up, and can be searched and copied. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { useRunLog } from "../data/streams.ts";
import { numberText, plural } from "../words/numbers.ts";
import { cut, plainText } from "../words/plain-text.ts";
import { Problem } from "./notices.tsx";
import { TEXT_SCALE } from "./text.tsx";

const LINE_HEIGHT = 19 * TEXT_SCALE;
/** With room for a scroll bar. */
const PADDING = 26;
const OVERSCAN = 10;
/** A longer line is cut here; a copy has all of it. */
const LENGTH_SHOWN = 2_000;
/** Nearer to the end than this, the log follows. */
const NEAR = 2 * LINE_HEIGHT;

export function RunLog({ id }: { readonly id: string }) {
  const { lines, droppedCount, error } = useRunLog(id);
  const [search, setSearch] = useState("");
  const [isFollowing, setFollowing] = useState(true);
  const wanted = useDeferredValue(search.toLowerCase());
  const shown = useMemo(
    () => (wanted === "" ? lines : lines.filter(({ text, step }) => `${step} ${text}`.toLowerCase().includes(wanted))),
    [lines, wanted],
  );
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: OVERSCAN,
  });
  useEffect(() => {
    if (isFollowing && shown.length > 0) virtual.scrollToIndex(shown.length - 1, { align: "end" });
  }, [isFollowing, shown.length]);
  const copy = () =>
    void navigator.clipboard.writeText(shown.map(({ at, step, text }) => `${at} ${step} ${text}`).join("\n"));
  return (
    <div className="log">
      <div className="log-bar">
        <h3>Log</h3>
        <input
          type="search"
          aria-label="Search the log"
          placeholder="Search"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
        <label>
          <input type="checkbox" checked={isFollowing} onChange={(event) => setFollowing(event.target.checked)} />{" "}
          Follow
        </label>
        <button type="button" onClick={copy} disabled={shown.length === 0}>
          Copy
        </button>
        <span className="quiet">
          {wanted === ""
            ? plural(lines.length, "line")
            : `${numberText(shown.length)} of ${plural(lines.length, "line")}`}
          {droppedCount > 0 && `, ${numberText(droppedCount)} earlier ones are not kept here`}
        </span>
      </div>
      {error && <Problem error={error} />}
      <div
        ref={scroller}
        className="log-lines"
        role="log"
        aria-label="Lines of the log"
        aria-live="off"
        tabIndex={0}
        style={{ height: `min(46vh, ${(shown.length + 1) * LINE_HEIGHT + PADDING}px)` }}
        onScroll={(event) => {
          const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
          setFollowing(scrollHeight - scrollTop - clientHeight < NEAR);
        }}
      >
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map(({ index, start, key }) => {
            const line = shown[index];
            if (!line) return null;
            const { text, left } = cut(plainText(line.text).replaceAll("\n", "⏎"), LENGTH_SHOWN);
            return (
              <div key={key} className="log-line" style={{ transform: `translateY(${start}px)` }}>
                <time dateTime={line.at}>{new Date(line.at).toLocaleTimeString("en-GB")}</time>{" "}
                <span className="log-step">{line.step}</span> <bdi>{text}</bdi>
                {left > 0 && <span className="quiet"> … {numberText(left)} more characters</span>}
              </div>
            );
          })}
        </div>
        {lines.length === 0 && <p className="quiet">No lines yet.</p>}
      </div>
    </div>
  );
}
