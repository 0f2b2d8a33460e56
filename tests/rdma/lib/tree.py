"""Where things are."""
import os

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.dirname(os.path.dirname(HERE))
INSIDE = os.path.join(HERE, "inside")
BUILD = os.path.abspath(os.environ.get("KW_BUILD") or os.path.join(TOP, "build"))
CACHE = os.path.join(TOP, "build", "guest")
LOGS = os.path.join(TOP, "build", "logs")
