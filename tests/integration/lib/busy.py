"""A server that a script keeps busy."""
import contextlib
import threading

import redis

from .process import wait_for


class Busy:
    """A server in the midst of a script: it answers BUSY to nearly everything until the end."""
    def __init__(self, server):
        server.command("CONFIG", "SET", "busy-reply-threshold", 50)
        self.server, self.thread = server, threading.Thread(target=self.run, daemon=True)

    def run(self):
        with self.server.client() as client, contextlib.suppress(redis.exceptions.ResponseError):
            client.eval("while true do end", 0)

    def __enter__(self):
        self.thread.start()
        wait_for(self.is_busy, "the script does not run")
        return self

    def is_busy(self):
        with self.server.client() as client:
            try:
                return not client.ping()
            except redis.exceptions.ResponseError as error:
                return "BUSY" in str(error)

    def __exit__(self, *_):
        self.server.command("SCRIPT", "KILL")
        self.thread.join()
