"""The two clients are one interface."""

import inspect

import evalwright.client
from evalwright.client import AsyncClient, Client


def methods(kind: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(each) for name, each in found if not name.startswith("_")}


def parameters(kind: type) -> dict[str, list[inspect.Parameter]]:
    return {name: list(told.parameters.values()) for name, told in methods(kind).items()}


def test_both_clients_have_the_same_methods_with_the_same_parameters():
    assert parameters(Client) == parameters(AsyncClient)


def test_every_method_explains_itself():
    for kind in (Client, AsyncClient):
        assert all(getattr(kind, name).__doc__ for name in methods(kind))


def test_methods_look_as_if_they_were_written_by_hand():
    shown = str(inspect.signature(Client("https://evals.example").summary))
    assert shown == "(run_id: str) -> evalwright.contracts.summary.EvalSummary"
    assert "place" not in methods(Client)["runs"].parameters
    assert Client.evaluate.__name__ == "evaluate"


def test_the_door_exports_exactly_what_it_says():
    public = {name for name in vars(evalwright.client) if not name.startswith("_")}
    modules = {name for name in public if inspect.ismodule(getattr(evalwright.client, name))}
    assert public - modules == set(evalwright.client.__all__)
