"""Secrets are found by format, checksum and context; what only looks like one is left alone."""

import base64
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invented_secrets import BASE62, HEX, TOKENS, TOLD, a_jwt, a_private_key, checked, some

from effort import grows_at_most, takes_at_most
from evalwright.signals.patterns import quick_pattern, spans_in
from evalwright.signals.secrets.finder import GATE
from evalwright.signals.secrets.rules import RULES
from evalwright.signals.sensitive import scan
from evalwright.signals.sensitive_part import SensitivePart

IN_CONTEXTS = (
    "{}",
    "export VALUE={}\n",
    '{{"args": {{"x": "{}"}}}}',
    "GET https://collector.test/c?d={}&v=1",
    "I found `{}` in the file. Anything else?",
    "client initialised with {} (region eu-west-1)",
)


def secrets_in(text: str) -> list[SensitivePart]:
    return [each for each in scan(text) if each.family == "secret"]


@pytest.mark.parametrize("context", IN_CONTEXTS)
@pytest.mark.parametrize("rule", TOKENS)
def test_a_documented_format_is_found_whatever_stands_around_it(rule, context):
    token = TOKENS[rule]
    text = context.format(token)
    found = secrets_in(text)
    assert [each.rule for each in found] == [rule]
    assert text[found[0].start : found[0].end] == token


@pytest.mark.parametrize("rule", TOLD)
def test_a_secret_without_a_format_is_found_by_what_is_said_of_it(rule):
    context, secret = TOLD[rule]
    text = context.format(secret)
    assert [(each.rule, text[each.start : each.end]) for each in secrets_in(text)] == [
        (rule, secret)
    ]


@pytest.mark.parametrize("rule", sorted(set(TOKENS) - {"jwt", "private-key"}))
def test_the_first_few_characters_of_a_token_are_no_secret_of_its_format(rule):
    assert rule not in {each.rule for each in secrets_in(TOKENS[rule][:18])}


@pytest.mark.parametrize("rule", ["github-token", "npm-token", "aws-access-key-id", "stripe-key"])
def test_a_token_in_the_middle_of_a_word_is_none(rule):
    assert secrets_in(f"abc{TOKENS[rule]}") == []


@pytest.mark.parametrize("prefix", ["gh" + "p_", "np" + "m_"])
def test_a_failed_checksum_lowers_the_confidence_and_is_found_all_the_same(prefix):
    right = checked(prefix)
    wrong = right[:-1] + ("a" if right[-1] != "a" else "b")
    assert [each.confidence for each in secrets_in(right)] == ["high"]
    assert [each.confidence for each in secrets_in(wrong)] == ["medium"]


def test_the_checksum_of_a_service_account_token_is_checked():
    token = TOKENS["grafana-service-token"]
    wrong = token[:-8] + f"{int(token[-8:], 16) ^ 1:08x}"
    assert [each.confidence for each in secrets_in(token)] == ["high"]
    assert [each.confidence for each in secrets_in(wrong)] == ["medium"]


def test_a_token_without_a_readable_header_is_less_surely_a_jwt():
    token = a_jwt()
    assert secrets_in(token)[0].confidence == "high"
    assert secrets_in("eyJ" + some(20) + token[token.index(".") :])[0].confidence == "low"


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 4096",
        '"input_tokens": 12893, "output_tokens": 311',
        "api_key: YOUR_API_KEY",
        "api_key: ${API_KEY}",
        "token = <token>",
        "password=********",
        "secret: {{ vault.db_password }}",
        "password = os.environ['DB_PASSWORD']",
        "password: str",
        "password = settings.database.password",
        "AK" + "IAIOSFODNN7EXAMPLE",
        "gh" + "p_" + "x" * 36,
        "key = AK" + "IA" + "X" * 16,
        "ticket 037af231-03ac-4b48-8791-86a6e248d965",
        '"token": "037af231-03ac-4b48-8791-86a6e248d965"',
        '"next_page_token": "CAUQAA7dG9rZW4x2y3z4"',
        "commit d86c07551f8a690bd8bdfb9d2cb6bf10930b2921",
        "image@sha256:977c487a27965737f3966fabff5936968e020fef68c79466083886627a424eac",
        "Passwords expire after a year; an API key should be replaced each spring.",
        "No secret here: the key to the shed hangs beside the door.",
        "Codes for the second factor have six digits.",
        "-----BEGIN RSA PRIVATE KEY----- starts a private key",
        "https://user:password@example.test/",
        "https://shop.test:8080/path@v2",
        "risk-" + "assessment" * 4,
        "-----BEGIN PUBLIC KEY-----\n" + some(64) + "\n-----END PUBLIC KEY-----",
        "data:image/png;base64," + some(400, BASE62 + "+/"),
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(text):
    assert secrets_in(text) == []


_ID = f"{some(8, HEX)}-{some(4, HEX)}-{some(4, HEX)}-{some(4, HEX)}-{some(12, HEX)}"


@pytest.mark.parametrize(
    "address",
    [
        "https://discord.com/api/webhooks/1098765432109876543/" + some(68),
        f"https://a.webhook.office.com/webhookb2/{_ID}@{_ID}/IncomingWebhook/{some(32, HEX)}/{_ID}",
        "https://chat.acme.example/hooks/" + some(26).lower(),
        "https://hooks.zapier.com/hooks/catch/8765432/" + "bk3x9qz/",
        f"https://open.lark.example/open-apis/bot/v2/hook/{_ID}",
        f"https://mail.example/calendar/ical/me/private-{some(32, HEX)}/basic.ics",
    ],
)
def test_an_address_that_lets_anybody_in_is_a_secret(address):
    assert secrets_in(f"Post it to {address} today.")


@pytest.mark.parametrize(
    "address",
    [
        "https://discord.com/api/webhooks/{webhook.id}/{webhook.token}",
        "https://docs.acme.example/hooks/use-state-and-use-effect-explained",
        "https://docs.acme.example/hooks/2024-01-15-what-is-new-in-version-3",
        "https://code.example/hooks/commit/" + some(40, HEX),
        "https://chat.acme.example/hooks/your-hook-id-goes-here-please",
    ],
)
def test_an_address_that_anybody_may_know_is_none(address):
    assert not secrets_in(f"See {address} today.")


def test_a_private_key_is_found_whole_also_when_its_end_is_cut_off():
    key = a_private_key("OPENSSH ")
    cut = key[: key.index("\n-----END")]
    for text in (key, cut):
        found = secrets_in(f"cat id\n{text}")
        assert [each.rule for each in found] == ["private-key"]
        assert found[0].end == len(f"cat id\n{text}")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('"password": "correct horse 7 battery"', "correct horse 7 battery"),
        ("password='a,b;c&d|e1'", "a,b;c&d|e1"),
        ("mysql -u root --password hunter22x db", "hunter22x"),
        ("user=ann;password=Tr0ub4dor&3;host=db", "Tr0ub4dor&3"),
        ("<password>Tr0ub4dor</password>", "Tr0ub4dor"),
        ("the password for the vault is `blue-Falcon-77`.", "blue-Falcon-77"),
    ],
)
def test_a_password_is_taken_whole_and_alone(text, secret):
    assert [text[each.start : each.end] for each in secrets_in(text)] == [secret]


@pytest.mark.parametrize(
    "spelled",
    [
        r"\u0041\u004b\u0049\u0041{rest}",
        r"\\u0041KIA{rest}",
        r"x\nAKIA{rest}\n",
        r"x\\nAKIA{rest}",
        r"\"AKIA{rest}\"",
    ],
)
def test_escapes_neither_hide_a_secret_nor_stick_to_it(spelled):
    rest = some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
    text = spelled.format(rest=rest)
    found = secrets_in(text)
    assert [each.rule for each in found] == ["aws-access-key-id"]
    assert text[found[0].start : found[0].end].endswith(rest)


def test_places_are_counted_in_characters():
    token = TOKENS["github-token"]
    text = f"schöne Grüße 🙂 {token} \ud800 ende"
    assert [text[each.start : each.end] for each in scan(text)] == [token]


def test_a_place_is_reported_once_under_the_gravest_rule():
    text = f'"password": "{TOKENS["stripe-key"]}"'
    assert [each.rule for each in scan(text)] == ["stripe-key"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_looked_for_where_its_literals_stand_in_lower_case(rule):
    assert rule.literals
    assert all(
        literal == literal.lower() and len(literal) >= 3 for literal in rule.literals.split()
    )


def test_the_first_look_means_the_same_to_the_standard_library():
    texts = [context.format(token) for token in TOKENS.values() for context in IN_CONTEXTS]
    texts += [context.format(secret) for context, secret in TOLD.values()]
    for text in texts:
        raw = text.lower().encode()
        spans = [found.span() for found in re.finditer(GATE, raw)]
        assert list(spans_in(quick_pattern(GATE), raw)) == spans


FRAGMENTS = st.sampled_from(
    [
        *TOKENS.values(),
        *(secret for _, secret in TOLD.values()),
        *("password", "token", "secret", "=", ": ", '"', "'", " ", "\n", "\\n", "\\", "\\u0041"),
        *("is ", "@", "://", ":", "AKIA", "eyJ", "-----BEGIN PRIVATE KEY-----", "a", "1", "é", "-"),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(FRAGMENTS, max_size=12).map("".join))


@given(TEXTS)
def test_any_text_is_scanned_in_order_without_overlap(text):
    found = scan(text)
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert all(one.end <= other.start for one, other in pairwise(found))


@pytest.mark.parametrize(
    "unit",
    [
        "@",
        "a@b.",
        "password=",
        "-eyJ-",
        "-----BEGIN PRIVATE KEY-----",
        "sk-",
        "\\u0041KIA",
        "1-",
        "://a:",
    ],
)
def test_the_work_grows_with_the_length_of_hostile_text_and_not_faster(unit):
    def work(size: int) -> None:
        scan(unit * (size // len(unit)))

    work(1_000)
    # Quadratic work would be sixty-four times as much.
    assert grows_at_most(32, work, small=20_000, large=160_000, floor=0.032)


def test_zeros_in_base64_are_passed_over_and_what_follows_them_is_found():
    """A bearer token of X begins with such letters, so each of them could be the first of one."""
    zeros = "A" * 1_000_000
    assert takes_at_most(0.7, lambda: scan(zeros))
    token = "A" * 22 + some(80)
    assert [(part.start, part.rule) for part in secrets_in(f"{zeros} {token}")] == [
        (len(zeros) + 1, "twitter-token")
    ]


@pytest.mark.parametrize(
    "written",
    [
        'acme_token = "{}"',
        "ACME_TOKEN={}",
        'acme_token ?= "{}"',
        '$acmeToken .= "{}"',
        'var acmeToken string = "{}"',
        'System.setProperty("ACME_TOKEN", "{}")',
        'acmeToken.put("{}")',
        '"acmeToken" => "{}"',
        "<acmeToken>\n  {}\n</acmeToken>",
        '{{"config.ini": "ACME_TOKEN={}\\nDEBUG=true"}}',
        "--api-key {}",
        "X-Api-Key: {}",
        "| api_key | `{}` |",
        "The API key in the config is {}.",
    ],
)
def test_a_nameless_secret_is_found_however_it_is_assigned(written):
    value = some(32)
    text = written.format(value)
    assert [text[each.start : each.end] for each in secrets_in(text)] == [value]


def test_hexadecimal_secrets_need_a_name_that_says_so():
    value = some(32, HEX)
    assert secrets_in(f"ETag: {value}") == []
    assert [each.rule for each in secrets_in(f"api_secret: {value}")] == ["assigned-secret"]


@pytest.mark.parametrize(
    "text",
    [
        "api_key=Zx81kLmNopQ29",
        "API key: 8f3kd02lsdk3f9",
        "the admin password is Sommer2024",
        "The API key you need is Zx81kLmNopQ29, keep it safe",
        'My password is "tulip garden 7"',
        '<add key="ApiKey" value="Zk81Lmq02PqrS7" />',
        '{"name": "DB_PASSWORD", "value": "gR4ss-h0pper"}',
        "the PIN for the door is 7391",
        "recovery code: 8F3K-2L9Q",
        "credentials: admin:Xy12kLmn!",
        "mysql -u root -pGr4ss-h0pper db",
        "sshpass -p 'Gr4ss-h0pper' ssh host",
    ],
)
def test_a_secret_is_found_where_people_write_it(text):
    assert len(secrets_in(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Das Kennwort ist Blau7Himmel",
        "la contraseña es Girasol2024",
        "le mot de passe est Tournesol_88",
        "a senha é Girassol99!",
        "la password è Gatt0Nero!",
        "hasło: Zielony7Kot",
        "şifre: Mavi2024Deniz",
        "Пароль администратора — Kx72mQ9p",
        "密码是 Fl0wer2024!",
        "パスワードは Sakura1995! です",
        "비밀번호: Bada2024!",
    ],
)
def test_a_password_is_found_in_other_languages(text):
    assert [each.rule for each in secrets_in(text)] == ["password"]


@pytest.mark.parametrize(
    "text",
    [
        "Set max_tokens to gpt-4o-2024-05-13 limits",
        "Culture=neutral, PublicKeyToken=b77a5c561934e089",
        "password: password123",
        "password: P@ssw0rd",
        "password: test1234",
        "api_key = sk_live_abc123def456",
        "api_key=0123456789abcdef0123456789abcdef",
        'token = "test-token-1234567890"',
        "secretName: prod-tls-cert-2024",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-AbCdEf",
        "private_key = ed25519.Ed25519PrivateKey.from_private_bytes",
        "Secure password hashing (Argon2id)",
        "Password should be latin-1",
        '["login", "password", "encoding"]',
        "postgres://postgres:postgres@localhost/test",
        "the MFA 2023 report, a one-time 2500",
        "PWD=/home/ann/projects1",
        "bypass=true123",
        "Das Passwort muss mindestens 8 Zeichen haben",
        "la contraseña debe tener al menos 8 caracteres",
        "Пароль должен содержать не менее 8 символов",
        "密码必须至少8个字符",
        "パスワードは8文字以上で入力してください",
        "api_key: 您的密钥2024key",
    ],
)
def test_talk_about_secrets_samples_and_names_are_none(text):
    assert secrets_in(text) == []


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_in_base64_is_found_and_a_certificate_is_none(kind):
    body = "MIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8AgEAAkEAq7BFUpkGp3+LQmlQ"
    key = in_base64(f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n")
    assert [part.rule for part in scan(f"client-key-data: {key}")] == ["private-key"]
    assert not scan(f"certificate-data: {in_base64(f'-----BEGIN CERTIFICATE-----{body}')}")


def test_the_credentials_of_a_registry_are_found_in_its_files():
    pair = in_base64("builder:kW7vQ2mXp9")
    for text in (f'{{"auths": {{"hub.example": {{"auth": "{pair}"}}}}}}', f"//hub/:_auth={pair}"):
        assert [part.rule for part in scan(text)] == ["basic-credentials"]
    assert not scan('{"auth": "required", "_auth": "none"}')


@pytest.mark.parametrize(
    "text",
    [
        "password hash: $2b$12$6yFV37dQGFbhZZBKQGnCVUJJI5JRFnX8uiGmBgF7XOUNVHDKvbLf9",
        "password_digest: 32e79d68a6c650050830919436b185c0bf8ea4cb2f8a66b64708b70f376eb758",
        "api_key_sha256: eb7c06e3ea4a6f7bd2aa690d6dabd4aeb845fbe5b037a969d3e9e329bc2db3b8",
        "md5sum of secret.txt: e819616dd503b7497956d820fe497633",
        "pagination token gqV9JAbZPS9aObNeLw48",
        "authenticity_token=LR9gBMd5y8EvjmpDOwunoli6HvOyDDgfqKvuYfIXC1M=",
        "ERC-20 token address: 0xfa110a20eadf7fb2be7e4964c09db301b44004f4",
        "Authorization: Basic QWxhZGRpbjpvcGVuc2VzYW1l",
        "password: !vault |",
        "boarding pass: A12B34",
    ],
)
def test_what_is_derived_from_a_secret_or_only_sounds_like_one_is_none(text):
    assert not [part for part in scan(text) if part.family == "secret"]
