"""`relatent serve`: the socket, the errors, and a server in a process of its own."""

import dataclasses
import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

import relatent
import small_graphs
from commands import run

pytest.importorskip("starlette", reason="needs relatent[serve]")
from relatent.cli.serve import is_loopback, listen, url_of


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_loopback_hosts_are_recognised(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "kg.example", ""])
def test_other_hosts_are_not_loopback(host):
    assert not is_loopback(host)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model file and a file of its facts."""
    folder, facts = tmp_path_factory.mktemp("politics"), small_graphs.politics()
    model, data = folder / "politics.relatent", folder / "politics.tsv"
    relatent.RescalLogit(8, 0.1, 0.1).fit(facts).factors_.save(model)
    data.write_text("".join("\t".join(fact) + "\n" for fact in facts.named()))
    return model, data


def test_a_port_in_use_is_a_one_line_error(capsys, saved):
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}/"
        code, _, err = run(capsys, "serve", saved[0], "--port", port)
    assert code == 1
    remedy = "stop the program that uses it, or choose another port with --port"
    assert err == f"error: port {port} is in use; {remedy}\n"


def test_a_forbidden_port_is_a_one_line_error(capsys, saved, monkeypatch):
    def refuse(self, address):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    code, _, err = run(capsys, "serve", saved[0], "--port", 80)
    assert code == 1
    assert err == "error: no permission to listen on port 80; choose a port above 1023 with --port\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "no.such.host.invalid"], "give an address of this machine"),
        (["--known", "kinships"], "the model knows no relation of the known facts"),
        (["--test", "kinships"], "the model knows no relation of the test facts"),
        (["--known", "nowhere.tsv"], "neither a file nor a data set"),
    ],
)
def test_wrong_arguments_are_one_line_errors(capsys, saved, arguments, message):
    code, out, err = run(capsys, "serve", saved[0], "--port", 0, *arguments)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
    assert not out


def test_decisions_need_facts(capsys, saved, tmp_path):
    path = tmp_path / "without.relatent"
    dataclasses.replace(relatent.load(saved[0]), facts=None).save(path)
    code, out, err = run(capsys, "serve", path, "--port", 0, "--review", tmp_path / "reviewed.csv")
    assert (code, out) == (1, "")
    assert err == "error: --review needs facts, and the model does not hold any: name them with --known DATA\n"


def test_a_missing_package_is_reported_with_the_extra_to_install(capsys, saved, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = run(capsys, "serve", saved[0])
    assert code == 1
    assert "pip install 'relatent[serve]'" in err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_command_serves_until_ctrl_c(saved, host):
    model, data = saved
    command = [sys.executable, "-m", "relatent.cli.main", "serve", model, "--port", "0", "--json"]
    server = subprocess.Popen(
        [*command, "--host", host], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=data.parent
    )
    try:
        url = json.loads(server.stdout.readline())["url"].replace("0.0.0.0", "127.0.0.1")
        with urllib.request.urlopen(url + "api/model", timeout=10) as response:
            assert json.load(response)["known"]["facts"] == 80
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=10)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0
    assert not out
    assert err.splitlines()[-1] == "stopped"
    assert ("there is no password" in err) == (host == "0.0.0.0")
