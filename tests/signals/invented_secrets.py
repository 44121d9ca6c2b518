"""Secrets and personal data of nobody, put together at run time: no scanner sees them here."""

import base64
import json
import random
import string
from zlib import crc32

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
HEX = "0123456789abcdef"
DASHED = BASE62 + "-_"
_chance = random.Random(20261115)


def some(count: int, alphabet: str = BASE62) -> str:
    """Random characters, with both a digit and a letter among them."""
    while True:
        text = "".join(_chance.choice(alphabet) for _ in range(count))
        if text[0].isalnum() and text[-1].isalnum() and not text.isalpha() and not text.isdigit():
            return text


def checked(prefix: str) -> str:
    """A token whose last six characters are the checksum of those before."""
    payload = some(30)
    number, digits = crc32(payload.encode()), ""
    while number:
        number, rest = divmod(number, 62)
        digits = BASE62[rest] + digits
    return prefix + payload + digits.rjust(6, "0")


def a_jwt() -> str:
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = base64.urlsafe_b64encode(json.dumps({"sub": some(10)}).encode())
    return ".".join((header.decode().rstrip("="), body.decode().rstrip("="), some(43, DASHED)))


def a_private_key(kind: str = "RSA ") -> str:
    lines = "\n".join(some(64, BASE62 + "+/") for _ in range(6))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


def a_grafana_token() -> str:
    body = "gl" + "sa_" + some(32)
    return f"{body}_{crc32(body.encode()).to_bytes(4, 'little').hex()}"


def a_base64_key(size: int) -> str:
    return base64.b64encode(_chance.randbytes(size)).decode()


# rule id -> a token of its format, to be found alone and in any context
TOKENS: dict[str, str] = {
    "aws-access-key-id": "AK" + "IA" + some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "google-api-key": "AI" + "za" + some(35, DASHED),
    "google-oauth-secret": "GOCS" + "PX-" + some(28),
    "azure-client-secret": some(3) + "8" + "Q~" + some(34),
    "digitalocean-token": "dop" + "_v1_" + some(64, HEX),
    "supabase-token": "sb" + "p_" + some(40, HEX),
    "planetscale-token": "psc" + "ale_pw_" + some(43),
    "netlify-token": "nf" + "p_" + some(36),
    "databricks-token": "da" + "pi" + some(32, HEX),
    "vault-token": "hv" + "s." + some(90),
    "terraform-token": some(14) + ".atl" + "asv1." + some(67),
    "pulumi-token": "pu" + "l-" + some(40, HEX),
    "doppler-token": "dp" + ".pt." + some(43),
    "github-token": checked("gh" + "p_"),
    "github-fine-grained-token": "github" + "_pat_" + some(22) + "_" + some(59),
    "gitlab-token": "gl" + "pat-" + some(20),
    "npm-token": checked("np" + "m_"),
    "rubygems-key": "rubygems" + "_" + some(48, HEX),
    "docker-token": "dckr" + "_pat_" + some(27),
    "sourcegraph-token": "sg" + "p_" + some(40, HEX),
    "linear-key": "lin" + "_api_" + some(40),
    "postman-key": "PM" + "AK-" + some(24, HEX) + "-" + some(34, HEX),
    "openai-key": "sk" + "-" + some(20) + "T3Blbk" + "FJ" + some(20),
    "anthropic-key": "sk" + "-ant-api03-" + some(93) + "AA",
    "huggingface-token": "h" + "f_" + some(34),
    "groq-key": "gs" + "k_" + some(52),
    "perplexity-key": "pp" + "lx-" + some(48),
    "nvidia-key": "nv" + "api-" + some(64),
    "slack-token": "xo" + "xb-123456789012-987654321098-" + some(24),
    "slack-webhook": "hooks.sla" + "ck.com/services/T" + some(8) + "/B" + some(8) + "/" + some(24),
    "telegram-token": "6213" + "847501:A" + "A" + some(33),
    "twilio-key": "S" + "K" + some(32, HEX),
    "sendgrid-key": "S" + "G." + some(22) + "." + some(43),
    "mailgun-key": "ke" + "y-" + some(32, HEX),
    "mailchimp-key": some(32, HEX) + "-u" + "s12",
    "notion-token": "nt" + "n_" + "45647615172" + some(35),
    "stripe-key": "sk" + "_live_" + some(24),
    "stripe-webhook-secret": "wh" + "sec_" + some(32),
    "square-token": "sq" + "0atp-" + some(22),
    "shopify-token": "shp" + "at_" + some(32, HEX),
    "newrelic-key": "NR" + "AK-" + some(27),
    "sentry-token": "sntry" + "u_" + some(64, HEX),
    "grafana-service-token": a_grafana_token(),
    "atlassian-token": "ATA" + "TT3" + some(180),
    "jwt": a_jwt(),
    "private-key": a_private_key(),
}
# rule id -> a text whose words tell the secret, and the secret
TOLD: dict[str, tuple[str, str]] = {
    "aws-secret-access-key": ("aws_secret_access_key = {}", some(40, BASE62 + "/+")),
    "azure-storage-key": ("AccountName=a;AccountKey={};EndpointSuffix=b", a_base64_key(64)),
    "heroku-key": ("HEROKU_API_KEY={}", "1b2a3c4d-5e6f-4a1b-8c2d-3e4f5a6b7c8d"),
    "cloudflare-key": ("cloudflare_api_token: {}", some(40)),
    "datadog-key": ("DATADOG_API_KEY={}", some(32, HEX)),
    "bearer-token": ("Authorization: Bearer {}", some(40)),
    "basic-credentials": ("Authorization: Basic {}", base64.b64encode(b"ann:pa55-Word").decode()),
    "assigned-secret": ('"api_key": "{}"', some(32)),
    "password": ("DB_PASSWORD={}", "Tr0ub4dor&3"),
    "one-time-code": ("Your verification code is {}.", "482913"),
    "session-cookie": ("Set-Cookie: sid={}; Path=/", some(40)),
    "url-password": ("postgres://app:{}@db.internal:5432/shop", some(14)),
}
PERSONAL: dict[str, tuple[str, str]] = {
    "email": ("write to {}.", "ann.lee@acme.test"),
    "phone": ("call {} now", "+44 20 7946 0958"),
    "us-ssn": ("it is {}, I think", "536-22-8145"),
    "credit-card": ("card {} on file", "4111 1111 1111 1111"),
    "iban": ("pay to {} please", "DE89 3704 0044 0532 0130 00"),
    "passport": ("Passport number: {}", "X12345678"),
    "street-address": ("ship to {}", "12 Old Mill Road, Springfield, IL 62704"),
    "date-of-birth": ("Date of birth: {}", "1984-02-29"),
    "ip-address": ("login from {}", "81.2.69.142"),
    "national-id": ("driver's license: {}", "D123-4567-8901"),
}
