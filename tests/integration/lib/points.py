"""Calls to the system that fail in a daemon or in keywakectl (tests/points/points.h)."""
import os

from .daemon import BUILD

LIBRARY = os.path.join(BUILD, "tests", "points", "points.so")


class Points:
    """
    points = Points(bed)
    points.arm(agent, "malloc", 100, "ENOMEM") # from its next start on
    points.fired()
    """

    def __init__(self, bed, name="points"):
        self.path = os.path.join(bed.directory, name)

    def environment(self, program, **variables):
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"LD_PRELOAD": LIBRARY, "KW_POINT_PROGRAM": program, "KW_POINT_LOG": self.path,
                "ASAN_OPTIONS": sanitizer.lstrip(":"), **variables}

    def load(self, daemon, **variables):
        """For its next starts, over what an earlier load said."""
        self.unload(daemon)
        env = {**self.environment("keywake-", **variables)}
        env["ASAN_OPTIONS"] = daemon.env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        daemon.plain_env = daemon.env
        daemon.env = {**daemon.env, **env}
        return daemon

    def unload(self, daemon):
        daemon.env = getattr(daemon, "plain_env", daemon.env)
        daemon.plain_env = daemon.env
        return daemon

    def arm(self, daemon, name, n, errno, every=False):
        if os.path.exists(self.path):
            os.unlink(self.path)
        return self.load(daemon, KW_POINT=f"{name}:{n}{'+' if every else ''}:{errno}")

    def fired(self):
        return os.path.exists(self.path) and os.path.getsize(self.path) > 0
