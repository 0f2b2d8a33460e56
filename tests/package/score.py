"""What the tests of the package share: commands, waiting, and counting."""
import os
import subprocess
import time

SLOW = float(os.environ.get("KW_SLOW", "1"))


class Failed(Exception):
    pass


def say(*argv, check=True, seconds=600, **options):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=seconds * SLOW, **options)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{' '.join(argv)[:200]}: no end within {seconds} s:\n{late.output}") from late
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(argv)[:200]}: exit {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def wait_for(question, what, seconds=60):
    end = time.monotonic() + seconds * SLOW
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(what() if callable(what) else what)
        time.sleep(0.1)


def shorten(text):
    return text if len(text) < 6000 else f"{text[:1000]}\n\n       …\n{text[-5000:]}"


class Score:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def take(self, name, test, *arguments):
        begin = time.monotonic()
        try:
            test(*arguments)
        except (Failed, AssertionError, OSError, KeyError, ValueError, IndexError) as problem:
            where = problem.__traceback__
            while where.tb_next:
                where = where.tb_next
            print(f"FAIL {name} (line {where.tb_lineno})\n       {shorten(str(problem))}", flush=True)
            self.failed += 1
            return False
        print(f"ok   {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        self.passed += 1
        return True

    def skip(self, name, why):
        print(f"skip {name}: {why}", flush=True)
        self.skipped += 1

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else ""))
        return 1 if self.failed else 0
