"""Clients that a witrpc.toml describes by name."""

import pathlib

import pytest
import witrpc
from conftest import Start, run


def test_a_client_by_its_name(start_demo: Start, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_demo("--token", "secret", "--codec", "memorypack")
    file = tmp_path / "witrpc.toml"
    file.write_text(
        f'[clients.Main]\nendpoint = "{server.endpoint}"\ncodec = "memorypack"\ntoken = "secret"\nreconnect = "fleet"\n'
        f'[clients.Other]\nendpoints = ["{server.endpoint}"]\ncodec = "json"\n'
    )
    main = witrpc.Named("Main", file)
    with witrpc.sync.connect(main, contract="Demo.IEcho") as echo:
        assert echo.call("int Add(int a, int b)", 2, 3) == 5
        assert witrpc.client_of(echo).endpoints == [server.endpoint]
        assert witrpc.health.check(witrpc.client_of(echo)).data["clientName"] == "Main"

    async def by_variable() -> None:
        # What is given goes before what the file says.
        async with witrpc.connect(witrpc.Named("Other"), codec="memorypack", token="secret") as client:
            assert client.endpoints == [server.endpoint]
            assert await client.service("Demo.IEcho").call("int Add(int a, int b)", 2, 3) == 5
            assert server.endpoint in repr(client)

    monkeypatch.setenv("WITRPC_CONFIG", str(file))
    run(by_variable())
    with pytest.raises(witrpc.UnauthorizedError):
        witrpc.sync.connect(witrpc.Named("Other")).connect()


def test_what_a_file_does_not_say(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "some.toml"
    with pytest.raises(witrpc.InvalidArgumentError, match="some.toml: No such file"):
        witrpc.sync.connect(witrpc.Named("Main", file))
    file.write_text('[clients.Main]\nendpoint = "tcp://127.0.0.1:5000"\ntokn = "x"\n')
    with pytest.raises(witrpc.InvalidArgumentError, match="some.toml: (?s:.*)unknown field `tokn`"):
        witrpc.sync.connect(witrpc.Named("Main", file))
    file.write_text('[clients.Main]\nendpoint = "tcp://127.0.0.1:5000"\n')
    with pytest.raises(witrpc.InvalidArgumentError, match=r"there is no \[clients.Mian\]; there are Main"):
        witrpc.sync.connect(witrpc.Named("Mian", file))
    assert witrpc.sync.connect(witrpc.Named("Main", str(file))).endpoints == ["tcp://127.0.0.1:5000"]
