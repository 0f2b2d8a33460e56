"""
Who listens at the port of a dead agent (mode replica) is taken for the primary, and told the link's password. The
next agent's link is closed to him all the same, and the server comes back to the agent.
"""
import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.cursor import wait_cursor
from lib.daemon import free_port
from lib.impostor import Impostor, ask_link
from lib.process import wait_for
from lib.server import MATRIX

pytestmark = pytest.mark.quick

SETTINGS = dict(apply__mode="replica", apply__consent=True)


@pytest.fixture(params=MATRIX)
def binary(request, need_server):
    need_server(request.param)
    return request.param


def masterauth(server):
    with server.admin() as client:
        return client.config_get("masterauth")["masterauth"].encode()


def led(bed, binary="installed"):
    """A server that an agent leads, the agent, and the port of the link."""
    primary, replica = bed.server("primary", binary), bed.server("replica", binary)
    data.fill_plain(primary, 100)
    port = free_port()
    agent = bed.agent(bed.proxy(primary), replica, **SETTINGS, apply__replica__listen=f"tcp://127.0.0.1:{port}")
    agent.wait_warm()
    wait_cursor(agent)
    return primary, replica, agent, port


def goes_on(primary, replica, agent):
    """The server is the agent's again, and was not read anew."""
    data.fill_plain(primary, 200)
    agent.wait_warm()
    assert_equal_now(primary, replica)
    link = agent.status()["apply"]
    assert (link["full_syncs"], link["continuations"]) == (0, 1), link


def test_what_a_stranger_was_told_opens_no_link_of_the_next_agent(bed, binary):
    primary, replica, agent, port = led(bed, binary)
    before = masterauth(replica)
    agent.kill()
    with Impostor(port) as impostor:
        told = impostor.greet()
        assert told[b"AUTH"][-1] == before
    agent.restart()
    agent.wait_warm()
    assert masterauth(replica) not in (b"", before)
    primary.command("SET", "later", "what no stranger may see")
    answers = ask_link(port, told)
    assert answers.startswith(b"-WRONGPASS") and b"CONTINUE" not in answers and b"FULLRESYNC" not in answers, answers
    goes_on(primary, replica, agent)


def test_a_stranger_who_keeps_the_server_waiting_is_not_told_the_next_password(bed, binary):
    """The server says its password after PONG, which can come when the next agent has set another one."""
    primary, replica, agent, port = led(bed, binary)
    before = masterauth(replica)
    agent.kill()
    with Impostor(port) as impostor:
        impostor.let_go_of_the_port()
        agent.restart()
        wait_for(lambda: masterauth(replica) != before, "the next agent sets no password of its own", 20)
        told = b" ".join(impostor.greet().get(b"AUTH", []))
        agent.wait_warm()
        assert masterauth(replica) not in told, "the password of the present link was told to a stranger"
        assert impostor.is_dropped()
    goes_on(primary, replica, agent)


def test_a_server_that_follows_a_stranger_comes_back(bed):
    primary, replica, agent, port = led(bed)
    agent.kill()
    with Impostor(port) as impostor:
        impostor.lead()
        impostor.let_go_of_the_port()
        wait_for(lambda: replica.command("INFO", "replication")["master_link_status"] == "up", "it is not led", 30)
        agent.restart()
        agent.wait_warm(30)
        assert impostor.is_dropped()
    goes_on(primary, replica, agent)


def test_a_password_is_set_at_each_takeover_and_stays_while_the_agent_lives(bed):
    primary, replica, agent, _ = led(bed)
    first = masterauth(replica)
    # A link that breaks while the agent lives goes on with the same password.
    replica.command("CLIENT", "KILL", "TYPE", "master")
    wait_for(lambda: agent.status()["apply"]["continuations"] == 1, "the server does not come back", 30)
    agent.wait_warm()
    assert masterauth(replica) == first
    passwords = {first}
    for _ in range(2):
        agent.kill()
        agent.restart()
        agent.wait_warm()
        passwords.add(masterauth(replica))
    assert len(passwords) == 3 and all(one.startswith(b"keywake/disabled/") for one in passwords), passwords
    goes_on(primary, replica, agent)
