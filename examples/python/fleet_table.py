"""Keeps a table of the nodes equal to the service, also over disconnects and restarts of the service:

    python3 fleet_table.py fleet.csv

Needs the package websockets (Debian: python3-websockets). Reads OSTLER_URL and OSTLER_TOKEN. Polls nothing.
"""
import asyncio, csv, json, os, random, sys
import websockets

URL = os.environ.get("OSTLER_URL", "http://127.0.0.1:4000/graphql").replace("http", "ws", 1)
TOKEN = os.environ.get("OSTLER_TOKEN")
FOLLOW = """subscription Follow($after: String, $snapshot: Boolean!) {
  nodeChanges(after: $after, snapshot: $snapshot) {
    __typename
    ... on NodeUpserted { cursor node { id name state powerState presence hostGroup cluster { name } maintenance { reason } } }
    ... on NodeLeft { cursor id }
    ... on StreamBookmark { cursor snapshotComplete }
    ... on StreamReset { cursor code }
  }
}"""
nodes = {}  # Rows by id. Replaced as a whole when a snapshot is complete.
cursor = None  # Where to go on; None until all nodes have been read.


def cells(node):
    cluster, maintenance = node["cluster"] or {}, node["maintenance"] or {}
    names = ("name", "state", "powerState", "presence", "hostGroup")
    return [*(node[name] for name in names), cluster.get("name"), maintenance.get("reason")]


async def items(socket):
    await socket.send(json.dumps({"type": "connection_init", "payload": {"authorization": f"Bearer {TOKEN}"} if TOKEN else {}}))
    variables = {"after": cursor, "snapshot": cursor is None}
    async for text in socket:
        message = json.loads(text)
        if message["type"] == "connection_ack":
            await socket.send(json.dumps({"id": "1", "type": "subscribe", "payload": {"query": FOLLOW, "variables": variables}}))
        elif message["type"] == "ping":
            await socket.send('{"type":"pong"}')
        elif message["type"] == "next" and message["payload"].get("data"):
            yield message["payload"]["data"]["nodeChanges"]
        elif message["type"] in ("next", "error"):
            if any(passes in text for passes in ("INTERNAL", "CAPACITY", "DATABASE_UNAVAILABLE")):
                raise ConnectionError(text)
            sys.exit(f"refused: {text}")
        elif message["type"] == "complete":
            return


async def follow():
    global nodes, cursor
    async with websockets.connect(URL, subprotocols=["graphql-transport-ws"], max_size=None) as socket:
        rows = nodes if cursor else {}
        async for item in items(socket):
            kind = item["__typename"]
            if kind == "StreamReset":
                cursor = cursor if item["code"] == "SHUTTING_DOWN" else None
                return
            if kind == "NodeUpserted":
                rows[item["node"]["id"]] = cells(item["node"])
            elif kind == "NodeLeft":
                rows.pop(item["id"], None)
            if cursor or item.get("snapshotComplete"):
                nodes, cursor = rows, item["cursor"]


async def write(path):
    written = None
    while True:
        if cursor and written != (now := sorted(nodes.values())):
            with open(f"{path}.new", "w", newline="") as file:
                csv.writer(file).writerows(now)
            os.replace(f"{path}.new", path)
            written = now
        await asyncio.sleep(0.5)


async def main(path):
    writing = asyncio.create_task(write(path))
    while not writing.done():
        try:
            await follow()
        except (OSError, asyncio.TimeoutError, websockets.WebSocketException) as error:
            received = getattr(error, "rcvd", None)
            if received and 4400 <= received.code < 4500:  # The token is wrong, or this program is.
                sys.exit(f"refused: {error}")
            print("broken:", error, file=sys.stderr)
        await asyncio.sleep(random.random())
    await writing


asyncio.run(main(sys.argv[1]))
