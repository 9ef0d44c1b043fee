/** The page of GraphiQL: Yoga's, whole and from our own files, with what it lacks. */
import { renderGraphiQL } from "@graphql-yoga/render-graphiql";

/**
 * A tab is shifted as soon as it is pressed, by what an animation has left behind: the press ends beside it, and nothing
 * happens. Who presses again is heard. So no tab is ever shifted.
 */
const STYLE = "<style>.graphiql-tab { transform: none !important; }</style>";

/** Headers belong to one tab. A token that was given in one holds for all of them until the page is left; it is stored nowhere. */
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
