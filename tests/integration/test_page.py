"""
The page for people, in Chromium: loads, stays up to date, tells a failure, and shows names as text.

KW_PICTURES=FOLDER makes the pictures of the documents: KW_PICTURES=$PWD/deploy/doc, and -k pictures.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from lib import data, http
from lib.browser import Browser
from lib.daemon import free_port
from lib.process import SLOW, wait_for
from lib.server import TOP
from lib.tls import Authority

SECRET = "a secret of sixteen and more"
SOON_MS = 2000 * SLOW # after the daemon knows of a trouble
MARKUP = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
CLOCK = r"\d\d:\d\d:\d\d" # in a pattern of the page
WATCH = """
window.seen = [];
window.heldUp = 0; // the longest time for which the machine had none for this page
let ran = Date.now();
setInterval(() => {
    heldUp = Math.max(heldUp, Date.now() - ran - 50);
    ran = Date.now();
}, 50);
new MutationObserver(() => seen.push({at: Date.now(), word: document.getElementById('word').textContent}))
    .observe(document.getElementById('word'), {childList: true, characterData: true, subtree: true});
"""
RUN_FOREIGN_SCRIPT = """
new Promise((tell) => {
    document.addEventListener("securitypolicyviolation", (event) => tell(event.effectiveDirective));
    const script = document.createElement("script");
    script.textContent = "document.title = 'run'";
    document.body.append(script);
    setTimeout(() => tell("nothing"), 5000);
})
"""


# Texts with too little contrast to what is behind them (WCAG: 4.5).
FAINT = """
(() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
        .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (e) => {
        const colour = parse(getComputedStyle(e).backgroundColor);
        return colour[3] === 0 && e.parentElement ? behind(e.parentElement) : colour;
    };
    return [...document.body.querySelectorAll("*")].filter((e) => e.checkVisibility()
            && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
        .map((e) => [light(parse(getComputedStyle(e).color)), light(behind(e)), e.textContent])
        .map(([a, b, text]) => [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), text])
        .filter(([contrast]) => !(contrast >= 4.5));
})()
"""


@pytest.fixture(scope="module", name="browser")
def one_browser():
    directory = tempfile.mkdtemp(prefix="kw-page-")
    with Browser(directory) as browser:
        yield browser
    shutil.rmtree(directory, ignore_errors=True)


def address():
    return f"tcp://127.0.0.1:{free_port()}"


def show(browser, daemon, word, **view):
    """The page of a daemon, when it shows that state."""
    where = daemon.settings["http.listen"].removeprefix("tcp://")
    login = f"keywake:{SECRET.replace(' ', '%20')}@" if daemon.settings.get("http.secret_file") else ""
    page = browser.open(f"http://{login}{where}/", **view)
    wait_word(page, word)
    page.evaluate(WATCH)
    return page


def wait_word(page, *words):
    page.wait(f"{list(words)}.includes(document.getElementById('word').textContent)", f"no {words}")


def shown_after_ms(page, word):
    """From the daemon's own note of the change until the page showed it, if the page was not held up."""
    changed = page.evaluate(f"seen.findLast((s) => s.word === '{word}').at")
    noted = page.evaluate("[...document.querySelectorAll('#events li')].find((row) => row.innerText"
                          f".includes('{word}')).querySelector('time').dateTime")
    return changed - page.evaluate(f"Date.parse('{noted}')") - page.evaluate("heldUp")


def assert_fits(page):
    for width in (360, 768, 1920):
        page.resize(width)
        size = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert size == [width, width], f"{size[0]} pixels at a width of {width}"


@pytest.mark.alone
def test_the_pages_stay_up_to_date_and_tell_a_failure_at_once(bed, browser):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10),
                    proxy={"http__listen": address()}, agent={"http__listen": address()})
    proxy, agent = show(browser, pair.proxy, "live"), show(browser, pair.agent, "warm")
    proxy.wait("document.querySelector('#agents').innerText.includes('warm')", "the agent is not there")
    data.fill_plain(pair.primary, 1234)
    proxy.wait("document.querySelector('#figures').innerText.includes('1,234')", "no news of keys")
    agent.wait("document.querySelector('#figures').innerText.includes('1,234')", "no news of keys")
    for page in (proxy, agent):
        assert_fits(page)
    pair.primary.kill()
    wait_word(proxy, "source_down")
    wait_word(agent, "stalled") # and stays so
    assert shown_after_ms(proxy, "source_down") < SOON_MS
    assert shown_after_ms(agent, "stalled") < SOON_MS
    for page in (proxy, agent):
        assert page.evaluate("document.getElementById('reason').textContent.length > 10")
        assert page.evaluate("document.getElementById('remedy').textContent.length > 10")
        assert re.fullmatch(r"Code of the reason: \w+", page.evaluate("document.getElementById('code').textContent"))
        assert_fits(page)
    pair.primary.restart(keep_data=False)
    wait_word(proxy, "held")
    wait_word(agent, "lagging")
    pair.proxy.ctl_ok("approve")
    wait_word(proxy, "live")
    wait_word(agent, "warm")
    assert proxy.complaints == agent.complaints == []


def test_a_daemon_that_does_not_answer_is_no_longer_shown_as_well(bed, browser):
    proxy = bed.proxy(bed.server("primary"), http__listen=address())
    page = show(browser, proxy, "live")
    proxy.signal(signal.SIGSTOP)
    wait_word(page, "no answer")
    assert "no answer" in page.evaluate("document.title")
    assert "What was heard last: live" in page.text()
    proxy.signal(signal.SIGCONT)
    wait_word(page, "live")
    proxy.kill()
    wait_word(page, "no answer")
    proxy.restart()
    wait_word(page, "live")


def test_names_of_keys_are_shown_as_text_and_only_its_own_script_runs(bed, browser):
    pair = bed.pair(replica_config={"databases": 2}, fill=lambda primary: data.fill_plain(primary, 10),
                    agent={"http__listen": address(), "http__secret_file": bed.file("http", SECRET + "\n"),
                           **Authority(bed.directory).wire("agent", days=3)})
    page = show(browser, pair.agent, "warm")
    with pair.primary.client(db=9) as client:
        client.set(MARKUP, 1)
    wait_word(page, "lagging")
    page.wait(f"document.body.innerText.includes({MARKUP!r})", "the key is not shown")
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.title").endswith("agent agent")
    assert_fits(page)
    assert page.evaluate("document.querySelector('#figures .busy').innerText.includes('valid for 3 days')")
    assert page.complaints == []
    policy = next(headers for url, (_, headers) in page.answers.items() if url.endswith("/"))["content-security-policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert page.evaluate(RUN_FOREIGN_SCRIPT) == "script-src-elem"
    assert page.evaluate("document.title") != "run"


def test_each_state_has_a_grade(bed):
    """For the rows of agents and the last changes. The remedies are those of the reasons: the unit tests have them."""
    primary, replica = bed.server("primary"), bed.server("replica")
    proxy = bed.proxy(primary)
    daemons = {"proxy": proxy, "agent": bed.agent(proxy, replica), "gateway": bed.gateway(proxy)}
    with open(os.path.join(TOP, "proto", "control", "http", "page", "page.js"), encoding="utf-8") as stream:
        script = stream.read()
    for name, daemon in daemons.items():
        states = set(re.findall(rf'^keywake_{name}_state\{{.*?state="(\w+)"', daemon.rpc("metrics")["text"], re.M))
        assert len(states) > 3
        for state in states:
            assert re.search(rf'\b{state}: "(good|busy|bad)"', script), f"{state} has no grade"


def text(page, element):
    return page.evaluate(f"document.getElementById('{element}').textContent")


def test_each_reason_has_its_remedy_and_each_state_its_time(bed, browser):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10),
                    proxy={"http__listen": address()}, agent={"http__listen": address()})
    proxy, agent = show(browser, pair.proxy, "live"), show(browser, pair.agent, "warm")
    assert text(proxy, "remedy") == text(agent, "remedy") == ""
    name = pair.proxy.status()["name"] # nobody gave it one: host and address
    assert name.endswith("/" + pair.primary.address), name
    assert text(proxy, "name") == name and proxy.evaluate("document.title") == f"● live – proxy {name}"
    assert "Role\nprimary" in proxy.text()
    proxy.wait(f"/^for \\d+ s, since {CLOCK}$/.test(document.getElementById('since').textContent)", "no time")
    proxy.wait(f"/^agent\\s+● warm\\s+\\d+ s, since {CLOCK}/.test(document.querySelector('#agents tr').innerText)",
               "no time of the agent")
    pair.agent.ctl_ok("pause")
    agent.wait("document.getElementById('remedy').textContent === 'Run keywakectl resume.'", "not what a pause needs")
    assert text(agent, "code") == "Code of the reason: paused"
    agent.wait("document.getElementById('state').classList.contains('busy')", "a pause is not graded so")
    pair.agent.ctl_ok("resume")
    wait_word(agent, "warm")
    pair.replica.kill()
    agent.wait("document.getElementById('remedy').textContent.startsWith('Start the local server. ')",
               "not what a dead server needs")
    agent.wait("document.getElementById('state').classList.contains('bad')", "a dead server is not graded so")
    assert agent.evaluate("document.getElementById('progress').hidden")
    proxy.wait("document.querySelector('#agents td.state').className === 'state bad'", "the row is not graded so")
    assert text(proxy, "agents-note") == "1 connected, 1 not well."
    assert proxy.complaints == agent.complaints == []


def test_a_bootstrap_shows_how_far_it_is_and_how_long_it_takes(bed, browser):
    primary = bed.server("primary")
    data.fill_plain(primary, 2000, length=1000)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, bed.server("replica"), http__listen=address(), apply__bytes_per_second=100_000)
    page = show(browser, agent, "bootstrapping")
    page.wait("/^[1-9]\\d? %, about \\d+ (s|min) left$/.test(document.getElementById('progress-text').innerText)",
              "no progress")
    agent.ctl_ok("config", "set", "apply.bytes_per_second", 0)
    wait_word(page, "warm")
    page.wait("document.getElementById('progress').hidden", "the progress is still shown")
    assert page.complaints == []


def spoken(page):
    return {(node["role"]["value"], node["name"]["value"].strip()) for node in
            page.ask("Accessibility.getFullAXTree")["nodes"] if not node["ignored"] and node.get("name")}


def test_it_can_be_read_and_walked_without_a_mouse_in_light_and_in_dark(bed, browser):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10), proxy={"http__listen": address()})
    page = show(browser, pair.proxy, "live", prefers_color_scheme="dark")
    page.wait("document.querySelector('#agents tr')", "the agent is not there")
    walk = []
    for _ in range(4):
        page.press("Tab")
        walk.append(page.evaluate("document.activeElement.textContent"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert walk == ["To the state", "/metrics", "/status", "/readyz"]
    wanted = {("heading", "keywake proxy " + pair.proxy.status()["name"]), ("heading", "State"), ("rowheader", "agent"), ("cell", "warm"),
              ("columnheader", "Lag"), ("region", "Table"), ("table", "Agents and gateways")}
    # Not at once: what it draws of the agent is of its last report.
    wait_for(lambda: wanted <= spoken(page) and any(
        role == "image" and name.startswith("Lag of agent: 0 ms now") for role, name in spoken(page)),
        lambda: f"not all is told: {sorted(spoken(page), key=str)}", 30)
    page.wait("document.querySelector('[aria-live=polite]').textContent.startsWith('live. ')", "the state is not told")
    assert page.evaluate(FAINT) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    assert page.evaluate(FAINT) == []


def test_a_scan_shows_how_far_it_is_and_how_long_it_takes(bed, browser):
    primary = bed.server("primary")
    data.fill_plain(primary, 2000)
    proxy = bed.proxy(primary, http__listen=address(), source__keys_per_second=25)
    page = show(browser, proxy, "scanning")
    page.wait("/^[1-9]\\d? %, about \\d+ (s|min) left$/.test(document.getElementById('progress-text').innerText)",
              "no progress")
    proxy.ctl_ok("config", "set", "source.keys_per_second", 0)
    wait_word(page, "live")
    page.wait("document.getElementById('progress').hidden", "the progress is still shown")
    assert page.complaints == []


# ---- a fleet, of which the pictures are made ----

WIDTHS = {"wide": 1280, "narrow": 360}


def picture(page, name, **view):
    folder = os.environ.get("KW_PICTURES")
    for suffix, width in WIDTHS.items() if folder else ():
        path = os.path.join(folder, f"page-{name}-{suffix}.png")
        page.resize(width, 400)
        page.evaluate("new Promise((done) => setTimeout(done, 300))")
        page.screenshot(path)
        if shutil.which("pngquant"):
            subprocess.run(["pngquant", "--force", "--ext", ".png", "64", path], check=True)


def on_tcp(bed, name, **config):
    port = free_port()
    server = bed.server(name, port=port, **config)
    server.by_tcp = f"tcp://127.0.0.1:{port}"
    return server


def write_for(page, primary, seconds):
    """So that there is something to see."""
    end = time.monotonic() + seconds
    with primary.client() as client:
        while time.monotonic() < end:
            with client.pipeline(transaction=False) as pipe:
                for i in random.sample(range(20_000), random.randrange(50, 3000)):
                    pipe.set(f"session:{i:05}", os.urandom(24).hex())
                pipe.execute()
            page.evaluate(f"new Promise((done) => setTimeout(done, {random.randrange(100, 900)}))")


def test_those_in_trouble_stand_first_and_the_pictures_are_made_of_them(bed, browser):
    primary = on_tcp(bed, "primary")
    data.fill_plain(primary, 20_000, prefix="session:")
    proxy = bed.proxy(primary, listen=("tcp",), redis__address=primary.by_tcp, http__listen=address(),
                      table__max_bytes="64MiB", source__primary_share=0.1)
    agents = {}
    for name in ("ams-1", "ams-2", "fra-1"):
        replica = on_tcp(bed, "replica-" + name)
        agents[name] = bed.agent(proxy, replica, name, via="tcp", redis__address=replica.by_tcp,
                                 **({"http__listen": address()} if name == "ams-1" else {}))
    bed.gateway(proxy, "edge-1", via="tcp", gateway__max_staleness_ms=60_000).wait_serving()
    for agent in agents.values():
        agent.wait_warm()
    page, other = show(browser, proxy, "live"), show(browser, agents["ams-1"], "warm", prefers_color_scheme="dark")
    page.wait("document.querySelectorAll('#agents tr').length === 4", "not all are there")
    agents["fra-1"].ctl_ok("pause")
    if os.environ.get("KW_PICTURES"):
        write_for(page, primary, 55)
    # Not at once: on a busy machine others are not well for a moment, too.
    page.wait("[...document.querySelectorAll('#agents bdi')].map((name) => name.textContent).join()"
              " === 'fra-1,ams-1,ams-2,edge-1' && document.querySelector('#agents tr').innerText.includes('lagging')"
              " && document.body.innerText.includes('4 connected, 1 not well')", "it does not stand first")
    for one in (page, other):
        assert_fits(one)
    picture(page, "proxy")
    picture(other, "agent")
    assert page.complaints == other.complaints == []


ETA = r"/^[1-9]\d? %, about \d+ (s|min) left$/.test(document.getElementById('progress-text').innerText)"


def test_the_pictures_of_one_on_its_way_one_that_failed_and_a_gateway(bed, browser):
    primary = on_tcp(bed, "primary")
    data.fill_plain(primary, 20_000, prefix="session:", length=200)
    proxy = bed.proxy(primary, listen=("tcp",), redis__address=primary.by_tcp)
    proxy.wait_live()
    slow, other = on_tcp(bed, "replica-of-ams-1"), on_tcp(bed, "replica-of-fra-1")
    on_its_way = bed.agent(proxy, slow, "ams-1", via="tcp", redis__address=slow.by_tcp, http__listen=address(),
                           apply__bytes_per_second=65_536)
    with other.client() as client:
        client.set("somebody's", "key")
    failed = bed.agent(proxy, other, "fra-1", via="tcp", redis__address=other.by_tcp, http__listen=address())
    gateway = bed.gateway(proxy, "edge-1", via="tcp", http__listen=address(), gateway__max_staleness_ms=60_000)
    gateway.wait_serving()
    page = show(browser, on_its_way, "bootstrapping")
    page.wait(ETA, "it does not say how long it takes")
    picture(page, "agent-bootstrapping")
    page = show(browser, failed, "failed")
    page.wait("document.getElementById('code').textContent.endsWith(': no_consent')", "the code is not told")
    assert "consent" in page.evaluate("document.getElementById('reason').textContent")
    assert "Check that you may lose them" in page.evaluate("document.getElementById('remedy').textContent")
    picture(page, "agent-failed")
    page = show(browser, gateway, "serving", prefers_color_scheme="dark")
    with gateway.client() as client:
        end = time.monotonic() + (20 if os.environ.get("KW_PICTURES") else 0)
        while time.monotonic() < end or client.get("session:1") is None:
            client.mget([f"session:{random.randrange(20_000)}" for _ in range(50)])
            page.evaluate("new Promise((done) => setTimeout(done, 100))")
    picture(page, "gateway")
    assert_fits(page)
    assert page.complaints == []
