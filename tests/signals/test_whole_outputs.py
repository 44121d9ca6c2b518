"""All that is said of sensitive texts, compared in full with what is kept in `expected/`."""

import sensitive_texts as texts
from whole_outputs import assert_as_expected

from evalwright.signals.injection.authority import UserRequest
from evalwright.signals.injection.instructions import InstructionReader, read_as_one
from evalwright.signals.masking.text import mask_of, mask_text
from evalwright.signals.secrets import checks
from evalwright.signals.sensitive import scan
from evalwright.signals.written_values import letters_only, plain_words

SHOWN = 40


def rows(text, scanning=scan):
    """Where something was found, what, how sure that is, and what may be shown of it."""
    return [
        f"{each.start}-{each.end} {each.family} {each.rule} {each.severity} {each.confidence} "
        f"'{each.label}' {mask_of(text[each.start : each.end].encode(), each)}"
        for each in scanning(text)
    ]


def numbered(given):
    return {f"{place:03}": rows(text) for place, text in enumerate(given)}


def test_an_example_of_every_rule_is_found_by_it_and_placed_and_masked():
    found = {name: rows(text) for name, text in texts.by_rule().items()}
    assert_as_expected("rules", found)


def test_a_character_off_changes_what_is_found_as_the_checksum_says():
    found = {
        name: rows(texts.a_character_off(text[:-4]) + " now")
        for name, text in texts.by_rule().items()
    }
    assert_as_expected("rules-off-by-one", found)


def test_every_check_judges_right_and_wrong_values():
    found = {}
    for name, values in texts.checked().items():
        check = getattr(checks, name)
        for place, value in enumerate(values):
            judged = [check(value.encode(), given) for given in ("high", "medium", "low")]
            found[f"{name} {place:02}"] = [*judged, round(checks.entropy(value.encode()), 6)]
    assert_as_expected("checks", found)


def test_values_are_judged_by_their_names():
    assert_as_expected("named-values", numbered(texts.NAMED))


def test_personal_data_is_told_from_what_looks_like_it():
    found = {text[:SHOWN] + f" ({place})": rows(f"see {text} there") + rows(text)
             for place, text in enumerate(texts.PII)}  # fmt: skip
    assert_as_expected("personal-data", found)


def test_escapes_masks_and_overlaps_keep_their_places():
    assert_as_expected("mixed-texts", numbered([*texts.mixed(), *texts.told()]))


def test_a_masked_text_holds_nothing_more_to_mask():
    found = [mask_text(text) for text in [*texts.mixed(), *texts.told()]]
    assert_as_expected("masked-texts", {"masked": found})
    assert [mask_text(text) for text in found] == found


HALF = "\ud800"  # half of a character, as broken records hold it


def test_half_a_character_does_not_hide_a_secret():
    (part,) = scan(f"{HALF} ann@acme.test {HALF}")
    assert (part.start, part.end, part.rule) == (2, 15, "email")
    assert mask_text(f"{HALF} ann@acme.test {HALF}") == f"{HALF} [masked:email] {HALF}"


def test_half_a_character_is_read_as_a_mark():
    assert plain_words(f"Send{HALF}it") == b" send it "
    assert letters_only(f"Send{HALF}it") == b"sendit"
    assert InstructionReader(f"{HALF} Send it.").raw == b"? Send it."
    assert read_as_one([HALF, "a"]) == b"?\n.?!\na"
    assert not UserRequest(f"{HALF} Send it.").entrusts


def test_a_name_within_a_longer_name_tells_a_secret():
    text = "first see aws_secret_value: q8ZrW1xvK2mnP3tUv5"
    (part,) = scan(text)
    assert (text[part.start : part.end], part.rule) == ("q8ZrW1xvK2mnP3tUv5", "assigned-secret")
