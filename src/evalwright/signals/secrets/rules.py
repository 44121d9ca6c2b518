"""The table of documented token formats: a new one is one line.

A pattern is matched where one of the rule's literals stands (lower case here, any case in the
text), `reach` bytes further left where the literal is not the start. Group 1, where there is one,
is the secret itself. `gate` replaces the literals in the first look at a text, where they are too
common. Formats: the vendors' documentation of their tokens and key prefixes.
"""

# ruff: noqa: E501 (a table is read by its lines)

import msgspec

from evalwright.contracts.report import Confidence, Severity
from evalwright.signals.secrets import checks
from evalwright.signals.secrets.checks import Check

_W = r"[A-Za-z0-9]"
_D = r"[\w-]"
_HEX = r"[0-9a-f]"


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


def _near(id: str, label: str, name: str, value: str, severity: Severity = "high") -> TokenRule:  # noqa: A002
    """A value without a prefix, recognised by the vendor's name before it."""
    pattern = rf"(?i:{name})[\w. -]{{0,30}}[\"'`)\]]{{0,2}}\s{{0,3}}(?:=>|:=|=|:|\|)\s{{0,3}}"
    return TokenRule(id, label, name, pattern + rf"[\"'`]?({value})", severity, "medium")


CLOUD = (
    TokenRule(
        "aws-access-key-id", "AWS access key id", "akia asia abia acca a3t",
        r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}", "high", "high", checks.aws_key_id,
    ),
    TokenRule(
        "aws-secret-access-key", "AWS secret access key",
        "secret_access_key secretaccesskey secret-access-key aws_secret_key aws_secret aws_sec",
        r"(?i:(?:aws_)?sec(?:ret)?[_-]?(?:access)?[_-]?(?:key)?|aws_secret_key)[\"'`\]]{0,2}"
        r"\s{0,3}(?:=>|:=|=|:|\||,)\s{0,3}[\"'`]?([A-Za-z0-9/+]{40})", "critical",
    ),
    TokenRule("aws-bedrock-key", "AWS Bedrock API key", "absk", rf"ABSK{_W}[A-Za-z0-9+/]{{108,268}}={{0,2}}"),
    TokenRule("google-api-key", "Google API key", "aiza", rf"AIza{_D}{{35}}"),
    TokenRule("google-oauth-secret", "Google OAuth client secret", "gocspx-", rf"GOCSPX-{_D}{{28}}"),
    TokenRule("google-oauth-token", "Google OAuth access token", "ya29.", r"ya29\.[\w-]{20,400}"),
    TokenRule("google-refresh-token", "Google OAuth refresh token", "1//0", rf"1//0{_D}{{40,120}}"),
    TokenRule("firebase-server-key", "Firebase server key", "aaaa", rf"AAAA{_D}{{7}}:APA91{_D}{{120,160}}", gate="aaaa[a-z0-9_-]{7}:apa91"),
    TokenRule("azure-devops-token", "Azure DevOps token", "azdo", rf"{_W}{{76}}AZDO{_W}{{4}}", "critical", "high", checks.random_looking, (76,)),
    TokenRule(
        "azure-storage-key", "Azure storage or bus key", "accountkey sharedaccesskey",
        r"(?i:AccountKey|SharedAccessKey)\"?\s?[=:]\s?\"?([A-Za-z0-9+/]{42,86}={1,2})", "critical",
    ),
    TokenRule(
        "azure-client-secret", "Azure AD client secret", "7q~ 8q~ 9q~",
        r"[\w~.-]{3}[789]Q~[\w~.-]{31,34}", "critical", "high", checks.random_looking, (3,),
    ),
    TokenRule(
        "azure-sas", "Azure shared access signature", "sig=",
        r"sig=((?:[A-Za-z0-9/+]|%[0-9A-Fa-f]{2}){43,60}(?:=|%3[dD]))", "high",
    ),
    TokenRule("alibaba-key-id", "Alibaba Cloud access key id", "ltai", rf"LTAI{_W}{{16,20}}"),
    TokenRule("tencent-key-id", "Tencent Cloud secret id", "akid", rf"AKID{_W}{{32}}"),
    TokenRule("digitalocean-token", "DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", rf"do[opr]_v1_{_HEX}{{64}}"),
    TokenRule("fly-token", "Fly.io token", "fo1_ fm1 fm2_", r"(?:fo1_[\w-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{80,}={0,3})"),
    TokenRule("heroku-key", "Heroku API key", "hrku-", rf"HRKU-{_D}{{36,70}}"),
    _near("heroku-key", "Heroku API key", "heroku", rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"),
    _near("cloudflare-key", "Cloudflare API key", "cloudflare", rf"v1\.0-{_HEX}{{24}}-{_HEX}{{146}}|{_HEX}{{37}}|{_D}{{40}}"),
    TokenRule("cloudflare-ca-key", "Cloudflare origin CA key", "v1.0-", rf"v1\.0-{_HEX}{{24}}-{_HEX}{{146}}"),
    TokenRule("supabase-token", "Supabase token", "sbp_ sb_secret_", rf"(?:sbp_{_HEX}{{40}}|sb_secret_{_D}{{22,50}})"),
    TokenRule("planetscale-token", "PlanetScale credential", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w=.-]{32,64}", "critical"),
    TokenRule("netlify-token", "Netlify token", "nfp_ nfc_ nfo_ nfu_", rf"nf[pcou]_{_W}{{36}}"),
    _near("netlify-token", "Netlify token", "netlify", rf"{_D}{{40,46}}"),
    TokenRule("vercel-token", "Vercel token", "vcp_ vca_ vci_ vcr_ vck_", rf"vc[pairk]_{_D}{{24,80}}"),
    _near("vercel-token", "Vercel token", "vercel", rf"{_W}{{24}}"),
    TokenRule("databricks-token", "Databricks token", "dapi", rf"dapi{_HEX}{{32}}(?:-\d)?"),
    TokenRule("vault-token", "Vault token", "hvs. hvb. hvr.", rf"hv[sbr]\.{_D}{{24,}}", "critical", "high", checks.mixed_case),
    TokenRule("terraform-token", "Terraform Cloud token", ".atlasv1.", rf"{_W}{{14}}\.atlasv1\.[\w=-]{{60,70}}", "high", "high", checks.random_looking, (14,)),
    TokenRule("pulumi-token", "Pulumi token", "pul-", rf"pul-{_HEX}{{40}}"),
    TokenRule("doppler-token", "Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", rf"dp\.(?:pt|ct|sa|scim|audit|st(?:\.[a-z0-9_-]{{2,35}})?)\.{_W}{{40,44}}"),
    TokenRule("age-key", "age private key", "age-secret-key-1", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", "critical", "high", checks.age_key),
    TokenRule("onepassword-token", "1Password token", "ops_eyj a3-", r"(?:ops_eyJ[A-Za-z0-9+/]{250,}={0,3}|A3-[A-Z0-9]{6}-[A-Z0-9]{11}(?:-[A-Z0-9]{5}){3})", "critical"),
    TokenRule("tailscale-key", "Tailscale key", "tskey-", rf"tskey-(?:auth|api|client|scim|webhook)-{_W}{{8,24}}-{_W}{{24,48}}"),
    TokenRule("render-key", "Render key", "rnd_", rf"rnd_{_W}{{28,40}}"),
    TokenRule("neon-key", "Neon key", "napi_", r"napi_[a-z0-9]{64}"),
    TokenRule("xata-key", "Xata key", "xau_", rf"xau_{_W}{{30,50}}"),
)  # fmt: skip

CODE = (
    TokenRule("github-token", "GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"gh[pousr]_{_W}{{36}}", "critical", "high", checks.crc32_base62),
    TokenRule("github-fine-grained-token", "GitHub fine-grained token", "github_pat_", rf"github_pat_{_W}{{22}}_{_W}{{59}}", "critical"),
    TokenRule("gitlab-token", "GitLab token", "glpat- gldt- glptt- glrt- glrtr- glcbt- glft- glsoat- glimt- glagent- gloas- glffct-", rf"gl(?:pat|dt|ptt|rtr?|cbt|ft|soat|imt|agent|oas|ffct)-{_D}{{20,300}}(?:\.[0-9a-z.]{{9,20}})?", "critical"),
    TokenRule("gitlab-runner-token", "GitLab runner registration token", "gr1348941", rf"GR1348941{_D}{{20}}"),
    TokenRule("npm-token", "npm token", "npm_", rf"npm_{_W}{{36}}", "critical", "high", checks.crc32_base62),
    TokenRule("pypi-token", "PyPI token", "pypi-", rf"pypi-Ag[EI]{_D}{{50,}}", "critical", "high", checks.pypi),
    TokenRule("rubygems-key", "RubyGems key", "rubygems_", rf"rubygems_{_HEX}{{48}}"),
    TokenRule("docker-token", "Docker Hub token", "dckr_pat_ dckr_oat_", rf"dckr_[po]at_{_D}{{27,36}}"),
    TokenRule("clojars-token", "Clojars token", "clojars_", r"CLOJARS_[A-Za-z0-9]{60}"),
    TokenRule("artifactory-key", "Artifactory key", "akcp cmvmd", rf"(?:AKCp{_W}{{69}}|cmVmd{_W}{{59}})"),
    TokenRule("sourcegraph-token", "Sourcegraph token", "sgp_", r"sgp_(?:(?:[0-9A-Fa-f]{16}|local)_)?[0-9A-Fa-f]{40}"),
    _near("sourcegraph-token", "Sourcegraph token", "sourcegraph", r"[0-9A-Fa-f]{40}"),
    TokenRule("atlassian-token", "Atlassian token", "atatt3 atbb atctt3", r"AT(?:ATT3|CTT3)[\w=-]{60,}|ATBB[A-Za-z0-9]{24,40}"),
    _near("atlassian-token", "Atlassian token", "atlassian", rf"{_W}{{24}}"),
    _near("bitbucket-secret", "Bitbucket client secret", "bitbucket", r"[\w=-]{64}"),
    TokenRule("linear-key", "Linear key", "lin_api_ lin_oauth_", rf"lin_(?:api|oauth)_{_W}{{40,64}}"),
    TokenRule("postman-key", "Postman key", "pmak-", rf"PMAK-{_HEX}{{24}}-{_HEX}{{34}}"),
    TokenRule("octopus-key", "Octopus Deploy key", "api-", r"API-[A-Z0-9]{26}", "high", "medium", checks.with_digit),
    TokenRule("sonar-token", "SonarQube token", "sqp_ squ_ sqa_", rf"sq[pua]_{_HEX}{{40}}"),
    TokenRule("buildkite-token", "Buildkite token", "bkua_ bkct_", rf"bk(?:ua|ct)_{_HEX}{{40}}"),
    TokenRule("prefect-key", "Prefect key", "pnu_ pnb_", rf"pn[ub]_{_W}{{36}}"),
    TokenRule("readme-key", "ReadMe key", "rdme_", r"rdme_[a-z0-9]{70}"),
    TokenRule("launchdarkly-key", "LaunchDarkly key", "api- sdk-", rf"(?:api|sdk)-{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"),
    TokenRule("intra42-secret", "42 API client secret", "s-s4t2", rf"s-s4t2(?:ud|af)-{_HEX}{{64}}"),
    TokenRule("typeform-token", "Typeform token", "tfp_", r"tfp_[\w.=-]{59}"),
    TokenRule("scalingo-token", "Scalingo token", "tk-us-", rf"tk-us-{_D}{{48}}"),
    TokenRule("snyk-token", "Snyk token", "snyk_", rf"snyk_(?:uat|sat)\.{_HEX}{{8}}\.[\w.-]{{60,300}}"),
    _near("snyk-token", "Snyk token", "snyk", rf"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"),
    _near("codecov-token", "Codecov token", "codecov", r"[a-z0-9]{32}"),
    _near("travis-token", "Travis CI token", "travis", rf"{_W}{{22}}"),
    _near("circleci-token", "CircleCI token", "circle", rf"{_HEX}{{40}}"),
    TokenRule("circleci-token", "CircleCI token", "ccipat_", rf"CCIPAT_{_W}{{22}}_{_HEX}{{40}}"),
)  # fmt: skip

MODELS = (
    TokenRule("openai-key", "OpenAI key", "sk-", rf"sk-(?:{_W}{{20}}T3BlbkFJ{_W}{{20}}|(?:proj|svcacct|admin|None)-{_D}{{20,}})", "critical"),
    TokenRule("anthropic-key", "Anthropic key", "sk-ant-", rf"sk-ant-[a-z]{{2,12}}\d{{2}}-{_D}{{80,120}}", "critical", "high", checks.anthropic),
    TokenRule("model-provider-key", "model provider key", "sk-", rf"sk-(?:or-v1-|lf-|kimi-)?{_W}{{32,100}}", "critical", "medium"),
    TokenRule("langfuse-key", "Langfuse secret key", "sk-lf-", rf"sk-lf-{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"),
    TokenRule("huggingface-token", "Hugging Face token", "hf_ api_org_", r"(?:hf_[A-Za-z]{34}|api_org_[A-Za-z]{34}|hf_[A-Za-z0-9]{34})", "high", "high", checks.mixed_case),
    TokenRule("groq-key", "Groq key", "gsk_", rf"gsk_{_W}{{40,60}}"),
    TokenRule("xai-key", "xAI key", "xai-", rf"xai-{_W}{{70,90}}"),
    TokenRule("perplexity-key", "Perplexity key", "pplx-", rf"pplx-{_W}{{48}}"),
    TokenRule("replicate-token", "Replicate token", "r8_", rf"r8_{_W}{{37}}"),
    TokenRule("fireworks-key", "Fireworks key", "fw_", rf"fw_{_W}{{22,30}}", "high", "medium", checks.mixed_case),
    TokenRule("nvidia-key", "NVIDIA API key", "nvapi-", rf"nvapi-{_D}{{60,80}}"),
    TokenRule("langsmith-key", "LangSmith key", "lsv2_", rf"lsv2_(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}"),
    TokenRule("tavily-key", "Tavily key", "tvly-", rf"tvly-{_D}{{32,60}}"),
    TokenRule("pinecone-key", "Pinecone key", "pcsk_", rf"pcsk_{_W}{{5,6}}_{_W}{{60,70}}"),
    TokenRule("weights-and-biases-key", "Weights & Biases key", "wandb_v1_", rf"wandb_v1_{_D}{{60,100}}"),
    _near("weights-and-biases-key", "Weights & Biases key", "wandb", rf"{_HEX}{{40}}"),
    _near("cohere-key", "Cohere key", "cohere", rf"{_W}{{40}}"),
    _near("mistral-key", "Mistral key", "mistral", rf"{_W}{{32}}"),
    _near("deepseek-key", "DeepSeek key", "deepseek", rf"sk-{_HEX}{{32}}"),
    TokenRule("cerebras-key", "Cerebras key", "csk-", r"csk-[a-z0-9]{48}"),
    TokenRule("elevenlabs-key", "ElevenLabs key", "sk_", rf"sk_{_HEX}{{48}}", gate="sk_[0-9a-f]{48}"),
)  # fmt: skip

MESSAGES = (
    TokenRule("slack-token", "Slack token", "xox", rf"xox[abcdeoprs](?:\.xox[bp])?-(?:\d{{1,13}}-){{1,4}}{_D}{{8,200}}"),
    TokenRule("slack-app-token", "Slack app token", "xapp-", rf"xapp-\d-[A-Z0-9]{{6,14}}-\d{{6,16}}-{_W}{{20,80}}"),
    TokenRule("slack-webhook", "Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,80}"),
    TokenRule("teams-webhook", "Teams webhook", ".webhook.office.com", rf"\.webhook\.office\.com/webhookb2/{_HEX}{{8}}-[\w@/-]{{80,190}}"),
    TokenRule("discord-webhook", "Discord webhook", "/api/webhooks/", rf"/api/webhooks/(\d{{17,20}}/{_D}{{60,80}})"),
    TokenRule(
        "webhook-url", "address that lets anybody post", "/hooks/ /hook/ /webhooks/ /webhook/ /webhookb2/",
        r"/(?:web)?hooks?(?:b2)?/(?:(?:catch|incoming|IncomingWebhook|services|[a-z]{0,9}\d[\w.%@-]{0,80})/){0,4}([\w-]{20,100})",
        "high", "medium", checks.unguessable,
    ),
    TokenRule("zapier-webhook", "Zapier webhook", "hooks.zapier.com", r"hooks\.zapier\.com/hooks/(?:catch|standard)/(\d{5,10}/(?:[a-z0-9]{6,9}|[0-9a-f]{32}))"),
    TokenRule("bot-webhook", "key of a bot's webhook", "/webhook/send?key=", rf"/webhook/send\?key=({_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}})"),
    TokenRule("ifttt-key", "IFTTT webhook key", "/with/key/", rf"/with/key/({_D}{{20,60}})"),
    TokenRule("azure-workflow-url", "signed address of a workflow", "sig=", rf"sig=({_D}{{43}})", "high", "high", checks.mixed_case),
    TokenRule("calendar-address", "private address of a calendar", "/private-", rf"/private-({_HEX}{{32}})/basic"),
    TokenRule("alert-integration-key", "integration key of an alert service", "/integration/", rf"/integration/({_HEX}{{32}})/enqueue"),
    TokenRule("discord-token", "Discord bot token", "discord", rf"(?i:discord)[\w. :=\"'`|-]{{1,40}}?([MNO]{_D}{{22,27}}\.{_D}{{6}}\.{_D}{{27,40}})"),
    TokenRule("telegram-token", "Telegram bot token", ":aa", rf"\d{{8,10}}:AA{_D}{{32,34}}", "high", "high", checks.random_looking, (10, 9, 8)),
    TokenRule("twilio-key", "Twilio key", " ".join(f"sk{digit}" for digit in "0123456789abcdef"), rf"SK{_HEX}{{32}}", gate=rf"sk{_HEX}{{32}}"),
    _near("twilio-auth-token", "Twilio auth token", "twilio", rf"{_HEX}{{32}}"),
    TokenRule("sendgrid-key", "SendGrid key", "sg.", r"SG\.[\w-]{16,32}\.[\w-]{32,64}", "critical"),
    TokenRule("mailgun-key", "Mailgun key", "key- pubkey-", rf"key-{_HEX}{{32}}"),
    _near("mailgun-key", "Mailgun key", "mailgun", rf"{_HEX}{{32}}-{_HEX}{{8}}-{_HEX}{{8}}|{_HEX}{{32}}"),
    TokenRule("mailchimp-key", "Mailchimp key", "-us", rf"{_HEX}{{32}}-us\d{{1,2}}", "high", "high", checks.random_looking, (32,)),
    TokenRule("brevo-key", "Brevo key", "xkeysib-", rf"xkeysib-{_HEX}{{64}}-{_W}{{16}}"),
    TokenRule("resend-key", "Resend key", "re_", rf"re_{_W}{{8}}_{_W}{{24}}", gate="re_[a-z0-9]{8}_"),
    TokenRule("notion-token", "Notion token", "ntn_ secret_", rf"(?:ntn_\d{{11}}{_W}{{35}}|secret_{_W}{{43}})", "high", "high", checks.mixed_case),
    TokenRule("airtable-token", "Airtable token", "pat", rf"pat{_W}{{14}}\.{_HEX}{{64}}", gate=r"pat[a-z0-9]{14}\.[0-9a-f]{64}"),
    _near("airtable-token", "Airtable token", "airtable", rf"(?:pat|key){_W}{{14}}(?:\.{_HEX}{{64}})?"),
    _near("asana-token", "Asana token", "asana", r"[12]/\d{16}(?:/\d{16})?:[0-9a-f]{32}|[0-9a-z]{32}"),
    TokenRule("figma-token", "Figma token", "figd_", rf"figd_{_D}{{38,48}}"),
    TokenRule("dropbox-token", "Dropbox token", "sl.", rf"sl\.(?:u\.)?{_D}{{100,}}"),
    TokenRule("hubspot-token", "HubSpot private app token", "pat-na1- pat-eu1-", rf"pat-(?:na|eu)1-{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"),
    TokenRule("facebook-token", "Facebook access token", "eaa", rf"EAA[A-Z]{_W}{{80,300}}"),
    TokenRule("twitter-token", "X bearer token", "aaaaaaaaaaaaaaaaaaaa", r"A{20,24}[A-Za-z0-9%]{60,120}"),
)  # fmt: skip

MONEY_AND_WATCH = (
    TokenRule("stripe-key", "Stripe key", "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_", rf"[sr]k_(?:live|test|prod)_{_W}{{16,200}}", "critical"),
    TokenRule("stripe-webhook-secret", "Stripe webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,80}"),
    TokenRule("square-token", "Square token", "sq0 eaaa", rf"(?:sq0(?:atp|csp|idp)-{_D}{{22,60}}|EAAA[\w-]{{60}})"),
    TokenRule("shopify-token", "Shopify token", "shpat_ shpca_ shppa_ shpss_ shpua_", r"shp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{32}"),
    TokenRule("braintree-token", "Braintree token", "access_token$", rf"access_token\$(?:production|sandbox)\${_HEX}{{8,16}}\${_HEX}{{32}}", "critical"),
    TokenRule("plaid-token", "Plaid token", "access-", rf"access-(?:sandbox|development|production)-{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}"),
    TokenRule("easypost-key", "EasyPost key", "ezak eztk", rf"EZ[AT]K{_W}{{54}}"),
    TokenRule("shippo-token", "Shippo token", "shippo_", rf"shippo_(?:live|test)_{_HEX}{{40}}"),
    TokenRule("flutterwave-key", "Flutterwave key", "flwseck", rf"FLWSECK(?:_TEST)?-{_W}{{12,40}}(?:-X)?"),
    TokenRule("razorpay-key", "Razorpay key", "rzp_live_", rf"rzp_live_{_W}{{14}}"),
    TokenRule("newrelic-key", "New Relic key", "nrak- nrii- nriq- nrra- nrsp- nrjs-", r"NR(?:AK|II|IQ|RA|SP|JS)-[A-Za-z0-9-]{19,42}"),
    TokenRule("sentry-token", "Sentry token", "sntrys_ sntryu_", r"(?:sntrys_eyJ[\w=+/-]{80,}|sntryu_[0-9a-f]{64})"),
    TokenRule("grafana-service-token", "Grafana service account token", "glsa_", rf"glsa_{_W}{{32}}_[0-9A-Fa-f]{{8}}", "high", "high", checks.grafana),
    TokenRule("grafana-cloud-token", "Grafana Cloud token", "glc_", r"glc_[A-Za-z0-9+/]{32,}={0,3}"),
    TokenRule("grafana-key", "Grafana API key", "eyjrijoi", r"eyJrIjoi[A-Za-z0-9+/]{60,}={0,3}"),
    TokenRule("dynatrace-token", "Dynatrace token", "dt0c01. dt0s01.", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _near("datadog-key", "Datadog key", "datadog", rf"{_HEX}{{40}}|{_HEX}{{32}}"),
    _near("datadog-key", "Datadog key", "dd_a", rf"{_HEX}{{40}}|{_HEX}{{32}}"),
    TokenRule("posthog-key", "PostHog personal key", "phx_", rf"phx_{_W}{{40,50}}"),
    _near("pagerduty-key", "PagerDuty key", "pagerduty", r"[\w+-]{20}"),
    TokenRule("clickhouse-key", "ClickHouse Cloud key", "4b1d", rf"4b1d{_W}{{38}}"),
    TokenRule("elastic-key", "Elastic Cloud key", "essu_", r"essu_[A-Za-z0-9+/=]{40,200}"),
    TokenRule("contentful-token", "Contentful token", "cfpat-", rf"CFPAT-{_D}{{43}}"),
    TokenRule("mapbox-token", "Mapbox secret token", "sk.eyj", rf"sk\.eyJ{_D}{{40,200}}\.{_D}{{20,30}}"),
    _near("algolia-key", "Algolia key", "algolia", rf"{_HEX}{{32}}"),
)  # fmt: skip

OTHERS = (
    TokenRule("adobe-secret", "Adobe client secret", "p8e-", r"p8e-[A-Za-z0-9]{32}"),
    TokenRule("authress-key", "Authress access key", ".acc_ .acc-", r"\.acc[_-][a-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}"),
    TokenRule("defined-networking-token", "Defined Networking token", "dnkey-", r"dnkey-[\w=-]{26}-[\w=-]{52}"),
    TokenRule("duffel-token", "Duffel token", "duffel_", r"duffel_(?:test|live)_[\w=-]{43}"),
    TokenRule("frameio-token", "Frame.io token", "fio-u-", r"fio-u-[\w=-]{64}"),
    TokenRule("harness-token", "Harness token", "pat. sat.", rf"[ps]at\.{_D}{{22}}\.{_HEX}{{24}}\.{_W}{{20}}", gate=r"[ps]at\.[a-z0-9_-]{22}\."),
    TokenRule("infracost-token", "Infracost token", "ico-", rf"ico-{_W}{{32}}"),
    TokenRule("lob-key", "Lob key", "live_ test_", rf"(?:live|test)_(?:pub_)?{_HEX}{{31,35}}"),
    TokenRule("gocardless-token", "GoCardless token", "live_", r"live_[\w=-]{40}", "critical", "medium", checks.mixed_case),
    TokenRule("maxmind-key", "MaxMind licence key", "_mmk", rf"{_W}{{6}}_{_W}{{29}}_mmk", "high", "high", checks.random_looking, (36,)),
    TokenRule("nuget-key", "NuGet key", "oy2", r"oy2[a-z0-9]{43}"),
    TokenRule("openshift-token", "OpenShift token", "sha256~", rf"sha256~{_D}{{43}}"),
    TokenRule("settlemint-token", "SettleMint token", "sm_aat_ sm_pat_ sm_sat_", rf"sm_[aps]at_{_W}{{16}}"),
    TokenRule("yandex-key", "Yandex Cloud key", "aqvn t1.", rf"(?:AQVN{_D}{{35,38}}|t1\.[A-Z0-9a-z_-]{{20,}}={{0,2}}\.[A-Z0-9a-z_-]{{86}}={{0,2}})"),
    _near("okta-token", "Okta token", "okta", r"00[\w=-]{40}"),
    _near("fastly-token", "Fastly token", "fastly", rf"{_D}{{32}}"),
    _near("zendesk-secret", "Zendesk secret", "zendesk", rf"{_W}{{40}}"),
    _near("twitch-token", "Twitch token", "twitch", r"[a-z0-9]{30}"),
    _near("trello-token", "Trello token", "trello", rf"{_HEX}{{32}}(?:{_HEX}{{32}})?"),
    _near("linkedin-secret", "LinkedIn client secret", "linkedin", rf"{_W}{{16}}"),
    _near("kraken-secret", "Kraken secret", "kraken", r"[A-Za-z0-9/=_+-]{80,90}"),
    _near("coinbase-token", "Coinbase token", "coinbase", rf"{_D}{{64}}"),
    _near("confluent-secret", "Confluent secret", "confluent", rf"{_W}{{64}}|{_W}{{16}}"),
    _near("rapidapi-token", "RapidAPI token", "rapidapi", rf"{_D}{{50}}"),
    _near("facebook-secret", "Facebook app secret", "facebook", rf"{_HEX}{{32}}"),
    _near("mattermost-token", "Mattermost token", "mattermost", r"[a-z0-9]{26}"),
    _near("sendbird-token", "Sendbird token", "sendbird", rf"{_HEX}{{40}}"),
)  # fmt: skip

# How the headers of private keys go on in base 64, as in a kubeconfig.
_BASE64_HEADERS = (
    "BQUklWQVRFIEtFWS0|BSU0EgUFJJVkFURSBLRVkt|BFQyBQUklWQVRFIEtFWS0|BEU0EgUFJJVkFURSBLRVkt"
    "|BPUEVOU1NIIFBSSVZBVEUgS0VZ|BFTkNSWVBURUQgUFJJVkFURSBLRVkt"
)
STRUCTURED = (
    TokenRule("jwt", "JSON web token", "eyj", rf"eyJ{_D}{{8,}}\.{_D}{{8,}}\.{_D}{{8,}}", "high", "high", checks.jwt),
    TokenRule("bearer-token", "bearer token", "bearer", r"(?i:bearer)\s{1,3}([\w.~+/-]{20,}={0,2})", "high", "medium"),
    TokenRule("basic-credentials", "HTTP basic credentials", "basic", r"(?i:basic)\s{1,3}([A-Za-z0-9+/]{8,}={0,2})", "high", "high", checks.basic_credentials),
    TokenRule("basic-credentials", "credentials of a registry", '"auth _auth', r"(?:\"auth\s{0,7}\"|_auth)\s{0,3}[:=]\s{0,7}[\"']?([A-Za-z0-9+/]{8,}={0,2})", "high", "high", checks.basic_credentials),
    TokenRule("private-key", "private key in base 64", "ls0tls1crudjti", rf"LS0tLS1CRUdJTi(?:{_BASE64_HEADERS})[A-Za-z0-9+/]{{40,}}={{0,2}}", "critical", "high"),
    TokenRule("ansible-vault", "Ansible vault", "$ansible_vault", r"\$ANSIBLE_VAULT;[\d.]{3};AES256[\s0-9a-f]{32,}", "medium"),
)  # fmt: skip

RULES: tuple[TokenRule, ...] = (
    *CLOUD,
    *CODE,
    *MODELS,
    *MESSAGES,
    *MONEY_AND_WATCH,
    *OTHERS,
    *STRUCTURED,
)
