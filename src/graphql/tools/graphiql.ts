/** The GraphiQL page: Yoga's, served completely from this process, with two fixes. */
import { renderGraphiQL } from "@graphql-yoga/render-graphiql";

/**
 * An animation moves a tab while the pointer is down, so the click ends beside the tab and only the second click works.
 * Without the transform no tab moves.
 */
const STYLE = "<style>.graphiql-tab { transform: none !important; }</style>";

/** GraphiQL keeps headers per tab. This uses a token entered in one tab for all tabs until the page closes; it is not stored. */
const SCRIPT = `<script>
  {
    const send = window.fetch;
    let authorization = null;
    window.fetch = (address, request = {}) => {
      const headers = new Headers(request.headers);
      authorization = headers.get("authorization") || authorization;
      if (authorization !== null) headers.set("authorization", authorization);
      return send(address, { ...request, headers });
    };
  }
</script>`;

export function renderPage(...options: Parameters<typeof renderGraphiQL>): string {
  return renderGraphiQL(...options).replace("<head>", () => `<head>${STYLE}${SCRIPT}`);
}
