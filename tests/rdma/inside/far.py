#!/usr/bin/python3
"""
In the far one of two guests: a primary and its proxy, and an ear (XML-RPC) on the network between
them that is not the RDMA one, by which the tests in the near guest have things done here.

  far.py EAR_ADDRESS EAR_PORT
"""
import os
import subprocess
import sys
import xmlrpc.server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "integration"))

from lib.bed import Bed  # noqa: E402 (found by the line above)

SERVER_PORT = 6379


class Far:
    def __init__(self, bed, address):
        self.bed = bed
        self.primary = bed.server("primary", port=SERVER_PORT, bind=address, protected_mode="no")
        self.proxy = bed.proxy(self.primary, listen=("rdma",))

    def proxy_address(self):
        return self.proxy.listen["rdma"]

    def agents(self):
        return [row["name"] for row in self.proxy.ctl_ok("agents")]

    def proxy_log(self):
        return self.proxy.tail(60)

    def shell(self, line):
        done = subprocess.run(["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout


def main():
    address, port = sys.argv[1], int(sys.argv[2])
    bed = Bed()
    far = Far(bed, address)
    ear = xmlrpc.server.SimpleXMLRPCServer((address, port), logRequests=False, allow_none=True)
    ear.register_instance(far)
    print("far: listening", flush=True)
    ear.serve_forever() # the host ends this guest


if __name__ == "__main__":
    main()
