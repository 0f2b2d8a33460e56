"""
Real sentinels, and the splits in which a deposed primary goes on serving. No agent is warm with its data beyond
one second and warm.lag_ms, all are equal to the new primary afterwards, and what it lost is counted. Each split has
both ways to deploy proxies and every apply mode: eighteen cases, six in each scene.
"""
import pytest

from lib.server import ONLY_INSTALLED
from lib.splits import CASES, SPLITS, Scene


@pytest.mark.long
@pytest.mark.parametrize("split, binary", [("cut off", "installed"), ("killed", "valkey-trixie"), ("stopped", "installed")])
def test_no_agent_is_warm_with_a_deposed_primary_and_all_go_along(bed, need_server, split, binary):
    if not ONLY_INSTALLED:
        need_server(binary)
    scene = Scene(bed, "installed" if ONLY_INSTALLED else binary)
    try:
        scene.lose()
        scene.hold_back()
        SPLITS[split].begin(scene)
        lost = scene.failover.wait()
        elected = scene.trio.elected()
        SPLITS[split].elected(scene)
        scene.let_go(lost)
        SPLITS[split].heal(scene)
        scene.settle(elected)
    finally:
        scene.close()
    broken = [f"{way}, {mode}: {sentence}" for way, mode in CASES
              for sentence in scene.broken(way, mode, elected, lost)]
    assert not [*broken, *scene.broken_by_proxies(lost)]
