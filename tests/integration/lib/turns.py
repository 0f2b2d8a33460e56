"""Several workers run tests side by side; a test marked `alone` waits until no other one runs."""
import contextlib
import fcntl
import os

DOOR, ROOM = "door", "room" # files in the folder that the workers of one run have in common


@contextlib.contextmanager
def locked(folder, name, how):
    with open(os.path.join(folder, name), "w", encoding="ascii") as stream:
        fcntl.flock(stream, how) # given back by the kernel, however the worker ends
        yield


@contextlib.contextmanager
def turn(folder, alone):
    """
    The room is shared, or held by the one that is alone. Everybody waits at the door for whoever came
    before, so that a row of others cannot keep out for ever the one that wants to be alone.
    """
    with contextlib.ExitStack() as room:
        with locked(folder, DOOR, fcntl.LOCK_EX):
            room.enter_context(locked(folder, ROOM, fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        yield
