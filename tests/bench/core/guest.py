"""A benchmark's part that needs an RDMA device: the same file, run in a guest with soft-RoCE."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from lib.daemon import BUILD, free_port
from lib.server import TOP

from .run import Run
from .stage import need_carrier

SECONDS = 400
RESULT = "/run/guest/rows.json"
ADDRESS = os.environ.get("KW_RDMA_HOST") or "10.77.0.1" # of the guest's device (tests/rdma/guest)


def in_guest(path, run, seconds=SECONDS):
    """From outside: what the file's main() finds there, by leave_rows."""
    need_carrier("rdma")
    folder = tempfile.mkdtemp(prefix="kw-bench-")
    words = ["--quick"] if run.quick else []
    command = f"/usr/bin/python3 {os.path.abspath(path)} {run.count} {' '.join(words)}"
    try:
        done = subprocess.run([os.path.join(TOP, "tests", "rdma", "guest"), "--timeout", str(seconds),
                               "--results", folder, "--set", f"KW_BUILD={BUILD}", command],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the guest: exit {done.returncode}: "
                               f"{(done.stderr + done.stdout).strip()[-600:]}")
        with open(os.path.join(folder, os.path.basename(RESULT)), encoding="utf-8") as stream:
            return json.load(stream)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def leave_rows(run_inside):
    """In the guest: the file's main()."""
    found = run_inside(Run(quick="--quick" in sys.argv, rounds=int(sys.argv[1])))
    with open(RESULT, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


def start_proxy(stage, primary):
    """Over rdma and tcp; the guest is its own network, so no secret is needed in it."""
    proxy = stage.bed.proxy(primary, listen=("shm", "tcp"), start=False, log__level="warn",
                            table__max_bytes="512MiB", auth__allow_insecure=True)
    proxy.listen["rdma"] = f"rdma://{ADDRESS}:{free_port()}"
    proxy.settings["listen"] = list(proxy.listen.values())
    proxy.start()
    proxy.wait_live(60)
    return proxy
