"""keywakectl --completion=… in the shells themselves: what a person gets who presses the tab key."""
import completion_shells as shells
import pytest

KEYS = '''[proxy]
redis.address (text; required)
    The primary.
table.max_bytes (bytes; default 0; live)
    live
proxy.fixed (integer; default 0)
[agent]
redis.address (text; required)
log.level (text: error, warn; default "info"; live)
agent.fixed (integer; default 0)
'''

# What is typed, and how the one word that fits goes on. RUN has the sockets, and the shell stands where report is.
TYPED = [
    ('sta', 'status'),
    ('-s /x wait wa', 'warm'),
    ('wait warm --time', '--timeout'),
    ('config rel', 'reload'),
    ('config get redis.add', 'redis.address'),
    ('-o pro', 'prometheus'),
    ('--output pro', 'prometheus'),
    ('agents rev', 'revoke'),
    ('logs --level w', 'warn'),
    ('top --sort la', 'lag'),
    ('doctor --daemon g', 'gateway'),
    ('log deb', 'debug'),
    ('-s RUN/ag', 'RUN/agent-a.sock'),
    ('--socket RUN/ag', 'RUN/agent-a.sock'),
    ('top RUN/ag', 'RUN/agent-a.sock'),
    ('explain lag RUN/ag', 'RUN/agent-a.sock'),
    ('switchover RUN/pr', 'RUN/proxy-p.sock'),
    ('switchover RUN/proxy-p.sock RUN/ag', 'RUN/agent-a.sock'),
    ('-s rep', 'report'),
    ('doctor rep', 'report'),
    ('export rep', 'report'),
    ('top rep', 'report'),
    ('config set t', 'table.max_bytes'),
    ('-s RUN/proxy-p.sock config get proxy', 'proxy.fixed'),
    ('-s RUN/agent-a.sock config set l', 'log.level'),
]
# Nothing fits.
NOTHING = [
    'status rep',
    'wait rep',
    'config set redis.add',
    '-s RUN/agent-a.sock config get table',
    '-s RUN/proxy-p.sock config set log',
    '-s RUN/proxy-p.sock config set proxy',
]


@pytest.fixture(name='place')
def a_place(tmp_path):
    for name in ('run', 'home', 'script'):
        (tmp_path / name).mkdir()
    for name in ('home/report', 'run/agent-a.sock', 'run/proxy-p.sock', 'run/$(id).sock'):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture(name='begin', params=('bash', 'zsh'))
def a_terminal(request, place):
    script = shells.write_script(request.param, place / 'script', keys=KEYS, sockets=str(place / 'run'))
    terminal = getattr(shells, request.param)(script, str(place / 'home'))
    yield terminal
    terminal.close()


def line_after_tab(terminal, place, typed):
    """The program tells its words."""
    terminal.run(f"keywakectl() {{ printf '%s\\n' \"$*\" > {place}/said; }}")
    terminal.type(f'\x15keywakectl {typed}\t\n')
    terminal.run('')
    return (place / 'said').read_text().strip()


def test_each_word_is_completed(begin, place):
    for typed, word in TYPED:
        typed, word = (text.replace('RUN', f'{place}/run') for text in (typed, word))
        assert line_after_tab(begin, place, typed) == ' '.join([*typed.split()[:-1], word])


def test_nothing_else_is_offered(begin, place):
    for typed in NOTHING:
        typed = typed.replace('RUN', f'{place}/run')
        assert line_after_tab(begin, place, typed) == typed


def test_fish_completes_each_word_and_nothing_else(place):
    script = shells.write_script('fish', place / 'script', keys=KEYS, sockets=str(place / 'run'))
    for typed, word in TYPED + [(typed, None) for typed in NOTHING]:
        typed, word = (text and text.replace('RUN', f'{place}/run') for text in (typed, word))
        assert set(shells.fish(script, typed, str(place / 'home'))) == ({word} if word else set()), typed


def test_without_a_word_files_stand_before_options(place):
    """Where a file is asked for, options come when a dash is typed."""
    script = shells.write_script('bash', place / 'script', keys=KEYS, sockets=str(place / 'run'))
    terminal = shells.bash(script, str(place / 'home'))
    try:
        for command in ('doctor', 'export'):
            assert line_after_tab(terminal, place, f'{command} ') == f'{command} report'
            assert line_after_tab(terminal, place, f'{command} --h') == f'{command} --help'
    finally:
        terminal.close()
