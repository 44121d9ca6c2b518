"""Obeyed injections in other languages."""

import pytest
from spoken_traces import ATTACKS, PRESSING, SPOKEN, attacked, clean, quiet

from evalwright.signals.detect import detect
from evalwright.signals.injection.glosses import gloss

FOLLOWED = "injected_instruction_followed"


def followed(trace, baseline=None):
    return any(signal.kind == FOLLOWED for signal in detect(trace, baseline))


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("language", SPOKEN)
def test_an_obeyed_injection_is_found_beside_a_clean_run_in_every_language(language, attack):
    assert followed(*attacked(language, attack))


@pytest.mark.parametrize("attack", PRESSING)
@pytest.mark.parametrize("language", SPOKEN)
def test_a_pressing_one_is_found_without_a_baseline(language, attack):
    assert followed(attacked(language, attack)[0])


@pytest.mark.parametrize("language", SPOKEN)
def test_clean_runs_are_left_alone_in_every_language(language):
    found = {name for name, trace in clean(language) if followed(trace)}
    found |= {name for name, trace in clean(language) if followed(trace, quiet(language))}
    assert found == set()


@pytest.mark.parametrize("language", SPOKEN)
def test_what_the_user_asks_for_in_another_language_is_no_risk(language):
    for _, trace in clean(language):
        assert not {signal.kind for signal in detect(trace)} & {"high_risk_action", FOLLOWED}


def test_english_and_addresses_stay_as_they_are():
    for text in ("Please send it to y@et.example or http://y.example/su.", "Los Angeles, USA"):
        assert gloss(text) == text
    assert "y@et.example" in gloss("Sende es bitte an y@et.example.")
