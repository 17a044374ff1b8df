"""`stateward mcp`: what a store holds, as tools for a model."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from importlib.util import find_spec

import stateward
from stateward.cli.common import OK, add_by, add_namespace, add_url, who
from stateward.codec import check_id
from stateward.engines.registry import looking, parse, refuse_missing
from stateward.engines.url import is_loopback
from stateward.errors import InvalidInput
from stateward.mcp.tool import WRITTEN, ToolCaller
from stateward.server.asker import Asker, DeviceRights

EXAMPLES = """\
Serves the Model Context Protocol on stdin and stdout, to the client that started it; with --http,
to clients on this machine. It is read-only without --write; changes are recorded in the operations
log. With --user, other users' data cannot be seen. To serve other machines, with keys, use
stateward serve, which has the same tools at /mcp.

examples:
  stateward mcp sqlite:///agents.db
  stateward mcp postgresql://agents@db/agents --user u-42
  stateward mcp https://KEY@agents.example.com --write
  stateward mcp sqlite:///agents.db --http 127.0.0.1:7879"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add_namespace(add)
    add("--user", metavar="ID", help="give access only to what belongs to this user")
    add("--write", action="store_true", help="also offer tools that make changes")
    add("--http", metavar="HOST:PORT", help="listen on this local address instead of stdin")
    add_by(add)


def run(options: argparse.Namespace) -> int:
    if find_spec("mcp") is None:
        raise InvalidInput("the MCP server needs the SDK: pip install 'stateward[mcp]'")
    where = None if options.http is None else _address(options.http)
    url = parse(options.url)
    user = None if options.user is None else check_id(options.user, "a user")
    refuse_missing(url)
    store = stateward.open(
        looking(url).text, namespace=options.namespace, spill=False, heartbeat=None, metrics=False
    )
    by = who(options)
    scope = "write" if options.write else "read"
    rights, writes = DeviceRights(documents=("*",)), WRITTEN if options.write else ()
    asker = Asker(
        by,
        scope,
        frozenset({options.namespace}),
        user,
        rights=rights,
        writes=writes,
        is_credential=False,
    )
    caller = ToolCaller(
        store, asker, by, options.namespace, write=options.write, operates=user is None
    )
    if where is not None:
        return _serve(store, caller, *where, options, url.safe)
    # Whoever waits for a line of stdin cannot be told to stop waiting, so Ctrl-C ends the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_talk(store, caller))
    return OK


async def _talk(store: stateward.Store, caller: ToolCaller) -> None:
    """Until the client closes stdin, be it by its death."""
    from mcp.server.stdio import stdio_server

    from stateward.mcp.server import mcp_server

    server = mcp_server(caller)
    async with store, stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _serve(
    store: stateward.Store,
    caller: ToolCaller,
    host: str,
    port: int,
    options: argparse.Namespace,
    safe: str,
) -> int:
    if find_spec("uvicorn") is None or find_spec("httptools") is None:
        raise InvalidInput("--http needs uvicorn and httptools: pip install 'stateward[server]'")
    from stateward.cli.serve import listening_on, serve
    from stateward.mcp.http import PATH, McpApplication

    def begun(port: int) -> None:
        here = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
        line = json.dumps({"url": here, "store": safe}) if options.json else f"{safe}: {here}"
        print(line, flush=True)

    with listening_on(host, port) as listening:
        return serve(McpApplication(store, caller), listening, begun)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidInput(f"--http must be HOST:PORT, e.g. 127.0.0.1:7879, not {text!r}")
    if not is_loopback(host):
        raise InvalidInput(
            f"--http must be a local address, e.g. 127.0.0.1:{port}: it asks for no key. To serve "
            "other machines, use stateward serve, which has the same tools at /mcp"
        )
    return host, int(port)
