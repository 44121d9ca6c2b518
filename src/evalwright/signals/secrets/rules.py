"""The documented token formats, of which `rules.txt` has a line each."""

# ruff: noqa: RUF001 (colons and dashes of other scripts)

from typing import Any

import msgspec

from evalwright.contracts.report import Confidence, Severity
from evalwright.signals.secrets import checks
from evalwright.signals.secrets.checks import Check
from evalwright.signals.secrets.context import (
    ContextRule,
    judge_code,
    judge_command_line,
    judge_cookie,
    judge_pair,
    judge_password,
    judge_recovery,
    judge_secret,
    judge_told_password,
    judge_url_password,
)
from evalwright.signals.word_tables import text_tables

# What may stand between a name and its value: a separator as in code, files, tables and tags,
# the value that goes with a name, or a few words as in prose. Escaped quotes have become a quote
# with spaces before it.
_JOINT = (
    r"[\w.-]{0,24}\s{0,7}[\"'`)\]]{0,2}"
    r"(?:[,;]?\s{1,12}[\"']?(?i:value)[\"']?\s{0,2}[:=]\s{0,2}|"
    r"\s{0,3}(?:=>|\?=|\.=|:{1,3}=|={1,3}|:|\||>|,|\()\s{0,7}|"
    r"(?:\s(?:[A-Za-z']{1,12}|è|é)){0,5}\s?[:=]?\s)\(?"
)
# Whole up to the closing quote: half a password would still say much.
_QUOTED = r"\"([^\"\n\x01]{4,256})|'([^'\"\n\x01]{4,256})|`([^`\"\n\x01]{4,256})"

# "password" in other languages, and how their sentences go on to the password itself.
_PASSWORDS = (
    "kennwort|passwort|zugangswort|contraseña|mot de passe|senha|palavra-passe|parola|"
    "hasło|şifre|wachtwoord|lösenord|adgangskode|passord|salasana|heslo|jelszó|mật khẩu|"
    "kata sandi|пароль|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호|"
    "كلمة المرور|كلمة السر|סיסמה|पासवर्ड|รหัสผ่าน|κωδικός"
)
_TOLD_AS = (
    "\\s?(?:[:=]|：|—|–|->|→)\\s?|\\s(?:es|est|ist|lautet|é|è|jest|to|is|är|er|on|je|là|adalah)"
    "(?:\\s?[:：])?\\s|\\s?(?:是|为|為|は|：|이|는|은|هي|है)\\s?|è\\s"
)

CONTEXT_RULES = (
    ContextRule(
        "password",
        "password",
        (
            *(b"password", b"passwd", b"pwd", b"passphrase", b"passcode", b"passwort"),
            *(b"pass:", b"pass=", b"pw:", b"pw="),
        ),
        (
            r"(?i:(?:passw(?:or)?[dt]|pwd|passphrase|passcode)|pass|pw)"
            rf"{_JOINT}(?:{_QUOTED}|([^\s\"'`\x01]{{4,128}}))"
        ).encode(),
        judge_password,
    ),
    ContextRule(
        "assigned-secret",
        "secret by its name",
        (
            *(b"secret", b"token", b"api_key", b"apikey", b"api-key", b"api key", b"access_key"),
            *(b"access-key", b"accesskey", b"access key", b"private_key", b"privatekey"),
            *(b"auth_key", b"signing_key", b"encryption_key", b"master_key", b"credential"),
            *(b"app_key", b"client_key", b"service_key", b"account_key", b"authkey"),
            *(b"signing key", b"encryption key", b"license_key", b"webhook_key"),
        ),
        (
            r"(?i:secret|token|(?:api|access|private|auth|signing|encryption|master|app|client|"
            rf"service|account|license|webhook)[_ -]?key|credential){_JOINT}"
            rf"(?:{_QUOTED}|([\w+/=.~$@!#%^*:-]{{10,512}}))"
        ).encode(),
        judge_secret,
    ),
    ContextRule(
        "password",
        "password",
        tuple(
            each.encode()
            for word in _PASSWORDS.split("|")
            for each in dict.fromkeys((word, word.capitalize()))
            if each == word or not each.isascii()
        ),
        (
            rf"(?:(?i:{_PASSWORDS})|Пароль|Şifre)(?:[\w ]|[\x80-\xff]){{0,48}}?"
            rf"(?:{_TOLD_AS})(?:[\"'`*(]|«\s?|„|“|”|「|『){{0,2}}([!#-&+-_a-~]{{6,64}})"
        ).encode(),
        judge_told_password,
    ),
    ContextRule(
        "login-pair",
        "user and password",
        (b"credential", b"login", b"log in with", b"logged in with", b"sign in with"),
        rb"(?i:credentials?|login|log in with|logged in with|sign in with)"
        rb"(?:(?:\s[A-Za-z]{1,12}){0,3}\s?[:=]\s?|\s)[\"'`]?[A-Za-z][\w.@+-]{1,40}"
        rb"\s{0,2}[:/|]\s{0,2}([^\s\"'`\x01/:|,]{6,64})",
        judge_pair,
    ),
    ContextRule(
        "recovery-code",
        "recovery code",
        (b"recovery code", b"backup code", b"recovery key", b"recovery_code", b"backup_code"),
        rb"(?i:(?:recovery|backup)[ _](?:code|key)s?)[\"'`]?\s?(?:is|are|=|:)\s?[\"'`\[]{0,2}"
        rb"([A-Za-z0-9]{4,8}(?:-[A-Za-z0-9]{4,8}){1,7})",
        judge_recovery,
    ),
    ContextRule(
        "one-time-code",
        "one-time code",
        (
            *(b"verification code", b"security code", b"2fa", b"mfa", b"otp", b"one-time"),
            *(b"authentication code", b"login code", b"access code", b"sign-in code", b"passcode"),
            *(b"verification_code", b"security_code", b"one time", b"auth code", b"pin code"),
            *(b"authenticator code", b"two-factor code", b"backup code", b"recovery code"),
            *(b"your code", b"pin is", b"pin: ", b"pin for", b"pin=", b"pin number"),
        ),
        (
            rb"(?i:(?:verification|security|authentication|authenticator|login|sign-in|access|auth|"
            rb"pin|two-factor|backup|recovery)[_ ]code|[2m]fa|otp|passcode|your code|pin|"
            rb"one[- ]time (?:code|password|passcode|pin|token))"
            rb"(?:(?:[ _][A-Za-z]{1,12}){0,4}[\"'`]?\s?(?:(?:is|was|=|:)\s?){1,2}[\"'`]?|\s)"
            rb"((?:G-)?\d{4,8}|\d{3}[- ]\d{3})\b"
        ),
        judge_code,
    ),
    ContextRule(
        "session-cookie",
        "session cookie",
        (b"cookie",),
        rb"(?i:cookie)[\"'`]{0,2}\s?[:=]\s?[\"'`]{0,2}[\w.-]{1,40}=([\w%.+/=-]{16,512})",
        judge_cookie,
    ),
    ContextRule(
        "command-line-password",
        "password on a command line",
        (b"sshpass ", b"mysql ", b"mysqldump ", b"mysqladmin "),
        rb"(?i:sshpass\s{1,3}-p|mysql(?:dump|admin)?\s[^\n\x01]{0,120}?\s-p)\s?[\"']?"
        rb"([^\s\x01\"'-][^\s\x01\"']{3,128})",
        judge_told_password,
    ),
    ContextRule(
        "command-line-password",
        "password on a command line",
        (b"curl ",),
        rb"(?i:curl)\s[^\n\x01]{0,200}?(?:-u|--user)[ =]?[\"']?[\w.@+-]{1,64}:"
        rb"([^\s\x01\"']{3,128})",
        judge_command_line,
    ),
    ContextRule(
        "url-password",
        "password in a URL",
        (b"://",),
        rb"://[^\s\x01/:@\"'<>?#]{0,64}:([^\s\x01/@\"'<>]{3,128})@[\w\[]",
        judge_url_password,
    ),
)


_NAMED = r"(?i:{})[\w. -]{{0,30}}[\"'`)\]]{{0,2}}\s{{0,3}}(?:=>|:=|=|:|\|)\s{{0,3}}[\"'`]?({})"


class TokenRule(msgspec.Struct, frozen=True):
    """One format of secret."""

    id: str
    label: str
    literals: str  # between spaces
    pattern: str
    severity: Severity = "high"
    confidence: Confidence = "high"
    check: Check = checks.random_looking
    reach: tuple[int, ...] = (0,)
    gate: str = ""


def _rule(name: str, row: str) -> TokenRule:
    label, literals, options, pattern = row.split(" | ")
    id_, _, kind = name.partition(" ")
    given: dict[str, Any] = dict(each.split("=", 1) for each in options.split() if each != "-")
    if "check" in given:
        given["check"] = getattr(checks, given["check"])
    if "reach" in given:
        given["reach"] = tuple(map(int, given["reach"].split(",")))
    if kind.startswith("near"):
        given["confidence"], pattern = "medium", _NAMED.format(literals, pattern)
    return TokenRule(id_, label, literals, pattern, **given)


RULES = tuple(
    _rule(name, row) for table in text_tables(__file__).values() for name, row in table.items()
)
