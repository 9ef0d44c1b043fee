/** A simulated machine: its controller, for the tests. */
import { createServer } from "node:http";

/** Starts the controller on a port of this computer; 0: a free one. */
export async function startMachine(token, port = 0) {
  let on = false;
  const server = createServer((request, response) => {
    const answer = (status, body) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", () => {
      if (request.headers.authorization !== `Bearer ${token}`) return answer(401, {});
      if (request.url === "/about") return answer(200, { model: "Example 1", serial: "0001" });
      if (request.url !== "/power") return answer(404, {});
      if (request.method === "PUT") on = JSON.parse(text).on === true;
      return answer(200, { on });
    });
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { port: server.address().port, close: () => server.close() };
}
