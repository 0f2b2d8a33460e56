"""The cursor that an agent writes into its server, which agent/local/cursor.h describes."""
import re

from .compare import key_counts
from .process import wait_for

NAME = "keywake_cursor"


def cursor_words(server, store="function"):
    """What the cursor says, as name -> value; nothing when there is none."""
    if store == "key":
        text = server.command("GET", NAME) or b""
    else:
        text = repr(server.command("FUNCTION", "LIST", "LIBRARYNAME", NAME, "WITHCODE")).encode()
    return {name.decode(): value.decode() for name, value in re.findall(rb"(\w+)=([-\w]+)", text)}


def key_letters(server):
    """The letters for how many keys each database holds (agent/local/key_counts.h)."""
    letters = {database: chr(ord("a") - 1 + keys.bit_length())
               for database, keys in key_counts(server).items()}
    return "".join(letters.get(database, "-") for database in range(max(letters, default=-1) + 1))


def wait_cursor(agent, store="function", timeout=30.0):
    """Until all that the agent has applied, and how much that is, stands in its server's cursor."""
    last = {}

    def written():
        last.clear()
        last.update(cursor_words(agent.replica, store))
        return (last.get("version") == str(agent.status()["applied_version"])
                and last.get("held", "") == key_letters(agent.replica))
    wait_for(written, lambda: f"the cursor says {last}, held would be {key_letters(agent.replica)}; "
             f"the agent {agent.status()}", timeout)
