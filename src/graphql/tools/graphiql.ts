/** The GraphiQL page: Yoga's, served completely from this process, with additions. */
import { renderGraphiQL } from "@graphql-yoga/render-graphiql";

/**
 * The tabs are numbered, and take several lines if they do not fit on one. An animation moves a tab while the pointer
 * is down, so the click ends beside the tab and only the second click works; without the transform no tab moves.
 */
const STYLE = `<style>
  .graphiql-tab { transform: none !important; counter-increment: tab; }
  .graphiql-tab-button::before { content: counter(tab) ". "; }
  .graphiql-tabs { flex-wrap: wrap; counter-reset: tab; }
</style>`;

/** Items of a subscription that the page shows, newest first. */
const ITEMS_SHOWN = 20;

/**
 * Replaces `fetch` of the page.
 * - GraphiQL keeps headers per tab. This uses a token entered in one tab for all tabs until the page closes; it is not
 *   stored.
 * - GraphiQL shows only the newest item of a subscription. This passes it the newest items as a list. A bookmark
 *   replaces the earlier one.
 */
const SCRIPT = `<script>
  {
    const send = window.fetch;
    let authorization = null;
    window.fetch = async (address, request = {}) => {
      const headers = new Headers(request.headers);
      authorization = headers.get("authorization") || authorization;
      if (authorization !== null) headers.set("authorization", authorization);
      const response = await send(address, { ...request, headers });
      const isStream = (response.headers.get("content-type") || "").startsWith("text/event-stream");
      if (!isStream) return response;
      const items = response.body
        .pipeThrough(new TextDecoderStream())
        .pipeThrough(newestItems())
        .pipeThrough(new TextEncoderStream());
      return new Response(items, { status: response.status, headers: response.headers });
    };

    function newestItems() {
      let rest = "";
      let shown = [];
      const withEarlier = (line) => {
        if (!line.startsWith("data: {")) return line;
        const answer = JSON.parse(line.slice("data: ".length));
        const [field] = Object.keys(answer.data || {});
        if (field === undefined) return line;
        const isBookmark = (item) => item !== null && item.__typename === "StreamBookmark";
        shown = [answer.data[field], ...shown.filter((item) => !isBookmark(item))].slice(0, ${ITEMS_SHOWN});
        return "data: " + JSON.stringify({ ...answer, data: { [field]: shown } });
      };
      return new TransformStream({
        transform(text, output) {
          const lines = (rest + text).split("\\n");
          rest = lines.pop();
          for (const line of lines) output.enqueue(withEarlier(line) + "\\n");
        },
        flush: (output) => output.enqueue(rest),
      });
    }
  }
</script>`;

export function renderPage(...options: Parameters<typeof renderGraphiQL>): string {
  return renderGraphiQL(...options).replace("<head>", () => `<head>${STYLE}${SCRIPT}`);
}
