/** The GraphiQL page: Yoga's, served completely from this process, with additions. */
import type { renderGraphiQL } from "@graphql-yoga/render-graphiql";

/**
 * The tabs are numbered, and take several lines if they do not fit on one; without a height of their own, the lines
 * would cover the editor and its button. An animation moves a tab while the pointer is down, so the click ends beside
 * the tab and only the second click works; without the transform no tab moves.
 */
const STYLE = `<style>
  .graphiql-tab { transform: none !important; counter-increment: tab; }
  .graphiql-tab-button::before { content: counter(tab) ". "; }
  .graphiql-tabs { flex-wrap: wrap; counter-reset: tab; }
  .graphiql-session-header { height: auto !important; min-height: var(--session-header-height); }
  #graphiql-session { min-height: 0; }
  #cost {
    position: fixed; right: 24px; bottom: 24px; z-index: 1; padding: 2px 8px; border-radius: 4px;
    font: 13px sans-serif; color: #eee; background: #444;
  }
  #cost:empty { display: none; }
  #session {
    position: fixed; right: 24px; top: 8px; z-index: 1; padding: 2px 8px; border-radius: 4px;
    font: 13px sans-serif; color: #eee; background: #444;
  }
</style>`;

/** Items of a subscription that the page shows, newest first. */
const ITEMS_SHOWN = 20;

/**
 * Replaces `fetch` of the page.
 * - GraphiQL keeps headers per tab. This uses a token entered in one tab for all tabs until the page closes; it is not
 *   stored.
 * - GraphiQL shows only the newest item of a subscription. This passes it the newest items as a list. A bookmark
 *   replaces the earlier one.
 * - This asks for the cost of each request, except for the page's own introspection, and shows it beside the answer
 *   instead of in it. A response without a cost, such as a stream, clears it.
 * - Requests without a token of their own have the rights of the browser's session. When it has ended, the page loads
 *   again: the service then leads to the sign-in, and back.
 */
const SCRIPT = `<script>
  {
    const send = window.fetch;
    let authorization = null;
    let isSignedIn = false;

    async function lookForSession() {
      const { session } = await (await send("/auth/session")).json();
      if (session === null && isSignedIn && authorization === null) window.location.reload();
      isSignedIn = session !== null;
      document.querySelector("#session").hidden = !isSignedIn;
      document.querySelector("#user").textContent = isSignedIn ? session.displayName || session.subject : "";
    }
    window.addEventListener("DOMContentLoaded", lookForSession);

    window.fetch = async (address, request = {}) => {
      const headers = new Headers(request.headers);
      authorization = headers.get("authorization") || authorization;
      if (authorization !== null) headers.set("authorization", authorization);
      const isOwn = String(request.body).includes('"operationName":"IntrospectionQuery"');
      if (!isOwn) headers.set("x-ostler-cost", "1");
      const response = await send(address, { ...request, headers });
      if (response.status === 401 && isSignedIn) lookForSession();
      if (!isOwn) showCost(null);
      const isStream = (response.headers.get("content-type") || "").startsWith("text/event-stream");
      if (!isStream) return isOwn ? response : withoutCost(response);
      const items = response.body
        .pipeThrough(new TextDecoderStream())
        .pipeThrough(newestItems())
        .pipeThrough(new TextEncoderStream());
      return new Response(items, { status: response.status, headers: response.headers });
    };

    async function withoutCost(response) {
      const text = await response.text();
      const { status, headers } = response;
      try {
        const { extensions: { cost, ...extensions } = {}, ...answer } = JSON.parse(text);
        showCost(cost || (answer.errors || []).map((error) => (error.extensions || {}).cost).find(Boolean) || null);
        if (Object.keys(extensions).length > 0) answer.extensions = extensions;
        return new Response(JSON.stringify(answer), { status, headers });
      } catch {
        return new Response(text, { status, headers });
      }
    }

    function showCost(cost) {
      const place = document.querySelector("#cost");
      const text = (number) => number.toLocaleString("en");
      place.textContent = cost === null ? "" : "Cost " + text(cost.requested) + " of " + text(cost.max);
    }

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
        flush(output) {
          output.enqueue(rest);
          if (isSignedIn) lookForSession();
        },
      });
    }
  }
</script>`;

const COST = `<output id="cost" title="Cost of the last request: the number of objects that it may return"></output>`;

const SESSION = `<form id="session" method="post" action="/auth/logout" hidden><span id="user"></span> <button>Sign out</button></form>`;

/** Yoga's page is a module that takes 30 MB of memory, so it is loaded when the page is first opened. */
export async function renderPage(...options: Parameters<typeof renderGraphiQL>): Promise<string> {
  const yoga = await import("@graphql-yoga/render-graphiql");
  return yoga
    .renderGraphiQL(...options)
    .replace("<head>", () => `<head>${STYLE}${SCRIPT}`)
    .replace(/<body[^>]*>/, (body) => `${body}${COST}${SESSION}`);
}
