"""
Daemons, and members of their group, choose names in the folder of the control sockets. A person who presses the tab
key there must run none of them: each is left out, or stands on the line as one quoted word.
"""
import os

import completion_shells as shells
import pytest

# What is run makes a file of this name, wherever the shell stands.
RUN = 'touch was-run'
HOSTILE = [
    f'$({RUN}).sock', f'agent-$({RUN}).sock', f'`{RUN}`.sock', f'({RUN}).sock', f'<({RUN}).sock',
    f'a;{RUN};.sock', f'a&{RUN}&.sock', f'a|{RUN}|.sock', f'a\n{RUN}\n.sock', f'#\n{RUN}\n.sock',
    f'"$({RUN})".sock', f"'$({RUN})'.sock", f"';{RUN};'.sock", f'\\$({RUN}).sock', f'a[$({RUN})].sock',
    'a b.sock', 'a\tb.sock', "it's.sock", '*.sock', '[a-z]*.sock', '{a,b}.sock',
    '~.sock', '!!.sock', '^a^b.sock', '${PWD:0:1}.sock', 'a=b:c@d.sock', '\u202egnp.sock', 'a\x1b]0;t\a.sock',
]
PLAIN = ['-s.sock', 'agent-main.sock', 'agent-x_y.2-z.sock', 'proxy-main.sock']
ASKS = ['-s', '--socket', 'top', 'explain lag', 'switchover']
SHELLS = ('bash', 'zsh', 'fish')


@pytest.fixture(name='place')
def a_place(tmp_path):
    """run has the sockets, and shells stand in home: nothing may come into it."""
    for name in ('run', 'home', 'script'):
        (tmp_path / name).mkdir()
    yield tmp_path
    assert 'was-run' not in os.listdir(tmp_path / 'home')


def fill(folder, names):
    for name in names:
        (folder / name).touch()


def offered_by_bash(script, typed, home):
    probe = f'source {script}; COMP_WORDS=(keywakectl "$@"); COMP_CWORD=$#; _keywakectl; printf "%s\\0" "${{COMPREPLY[@]}}"'
    done = shells.run(['bash', '-c', probe, 'bash', *typed], home)
    return [word for word in done.split('\0') if word]


def offered_by_zsh(script, typed, home):
    """What the function hands to compadd and _files, which offer it quoted."""
    probe = ('compadd() { [[ $1 == -a ]] && { shift 2; print -rN -- ${(P)1}; return; }; shift; print -rN -- "$@"; }; '
             f'_files() {{ : }}; words=(keywakectl "$@"); CURRENT=$#words; PREFIX=$words[-1]; source {script}')
    done = shells.run(['zsh', '-f', '-c', probe, 'zsh', *typed], home)
    return [word for word in done.split('\0') if word]


@pytest.mark.parametrize('shell', SHELLS)
@pytest.mark.parametrize('ask', ASKS)
def test_only_plain_names_are_offered(shell, ask, place):
    """By our scripts, that is: what the shell finds itself comes below."""
    run, home = place / 'run', str(place / 'home')
    fill(run, HOSTILE + PLAIN)
    script = shells.write_script(shell, place / 'script', sockets=str(run))
    plain = [f'{run}/{name}' for name in PLAIN]
    if shell == 'fish':
        words = shells.run(['fish', '-N', '-c', f'source {script}; __keywakectl_sockets; true'], home).splitlines()
    else:
        offer = offered_by_bash if shell == 'bash' else offered_by_zsh
        words = [word for word in offer(script, [*ask.split(), f'{run}/'], home) if not word.startswith('--')]
    assert sorted(words) == sorted(plain)


@pytest.mark.parametrize('shell', ('bash', 'zsh'))
@pytest.mark.parametrize('name', HOSTILE)
def test_a_hostile_name_comes_as_one_word_or_not_at_all(shell, name, place):
    """The line is run after the tab key, and the program tells its arguments."""
    run = place / 'run'
    fill(run, [name])
    script = shells.write_script(shell, place / 'script', sockets=str(run))
    terminal = getattr(shells, shell)(script, str(place / 'home'))
    try:
        terminal.run(f"keywakectl() {{ printf '%s\\0' \"$@\" > {place}/said; }}")
        for typed in (f'-s {run}/', f'top {run}/', '-s '):
            terminal.type(f'\x15keywakectl {typed}\t\n')
            terminal.run('')
            said = (place / 'said').read_bytes().decode().split('\0')
            assert said[0] == typed.split()[0]
            assert [word.rstrip() for word in said[1:] if word] in ([f'{run}/{name}'], [f'{run}/'], []), (typed, said)
    finally:
        terminal.close()


@pytest.mark.parametrize('name', [name for name in HOSTILE if '\t' not in name]) # a description follows a tab
def test_fish_quotes_what_it_finds(name, place):
    run = place / 'run'
    fill(run, [name])
    script = shells.write_script('fish', place / 'script', sockets=str(run))
    for typed in (f'-s {run}/', f'top {run}/', '-s ', 'top '):
        for word in shells.fish(script, typed, str(place / 'home')):
            said = shells.run(['fish', '-N', '-c', f"printf '%s\\n' {word}"], str(place / 'home'))
            assert said in (f'{run}/{name}\n', f'{run}/\n', f'{name}\n'), (typed, word)


@pytest.mark.parametrize('shell', ('bash', 'zsh'))
def test_nothing_is_run_among_many_names(shell, place):
    fill(place / 'run', HOSTILE + PLAIN)
    script = shells.write_script(shell, place / 'script', sockets=str(place / 'run'))
    terminal = getattr(shells, shell)(script, str(place / 'home'))
    try:
        for ask in [*ASKS, 'doctor', 'export', 'get', 'config set']:
            for begin in ('', f'{place}/run/', f'{place}/run/a', f'{place}/run/\\$'):
                terminal.type(f'\x15keywakectl {ask} {begin}\t\t\t')
                terminal.run('\x15')
                assert not (place / 'home' / 'was-run').exists(), (ask, begin)
    finally:
        terminal.close()


def test_the_list_of_sockets_can_be_copied_into_a_shell(place):
    """Without -s, keywakectl names the sockets in /run/keywake: this one is of a mount namespace."""
    fill(place / 'run', HOSTILE + PLAIN)
    words = ['unshare', '-m'] if os.getuid() == 0 else ['unshare', '-r', '-m']
    mounts = f'mount -t tmpfs t /run && cp -r {place}/run /run/keywake && exec "$1" status'
    if shells.status([*words, 'mount', '-t', 'tmpfs', 't', '/run']) != 0:
        pytest.skip('no mount namespace can be made here')
    said = shells.said([*words, 'sh', '-c', mounts, 'sh', shells.CTL])
    listed, more = said.split('name one by -s:')[1].split(' (')
    assert listed.split() == [f'/run/keywake/{name}' for name in PLAIN]
    assert more.startswith(f'{len(HOSTILE)} more') and '\\x0a' not in said
