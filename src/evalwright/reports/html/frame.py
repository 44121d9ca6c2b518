"""The page of a case as a whole: what stands on every page, around what only some have.

It is written by hand because a template, quick as it is, takes longer for it than all the rest of
a page without findings. All text comes in escaped, as `quoted_html` does it.
"""

from typing import NamedTuple

from evalwright.reports.html.assets import CASE_POLICY
from evalwright.reports.html.markup import quoted_html


class CasePage(NamedTuple):
    """The parts of a page, all of them HTML; those that a case does not have are empty."""

    report_id: str
    case_id: str
    title: str
    change: str
    banner: str
    badges: str
    facts: str
    verdict: str
    prompt: str
    findings: str
    steps: str
    answers: str
    actions: str
    links: str


SECRETS_ARE_SHOWN = (
    '<p class="banner" role="note"><strong>Secrets are shown.</strong> This report was written '
    "with secrets and personal data in clear; share it with care.</p>\n"
)
GATE = (
    '<span class="badge critical"><span aria-hidden="true">&#9632;</span> Gate recommended</span> '
)
_POLICY = quoted_html(CASE_POLICY)
_NO_STEPS = '<p class="muted">Neither side recorded a step.</p>\n'


def page_html(page: CasePage) -> str:
    """The page, put together."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{page.change}: {page.title} &ndash; {page.report_id}</title>
<link rel="stylesheet" href="assets/report.css">
</head>
<body class="case">
<a class="skip" href="#main">Skip to the case</a>
<header>
<nav aria-label="Report"><a href="report.html">&larr; All cases</a> \
<span class="muted">{page.report_id}</span></nav>
{page.banner}<h1>{page.title}</h1>
<p class="lead">{page.badges}<code>{page.case_id}</code></p>
</header>
<main id="main">
<section aria-labelledby="verdict"><h2 id="verdict">Verdict</h2>
<div class="scroll" role="region" aria-label="Verdict of both sides" tabindex="0">\
<table class="facts"><thead><tr><td></td><th scope="col">Baseline</th><th scope="col">New</th></tr>\
</thead><tbody>
{page.facts}</tbody></table></div>
{page.verdict}</section>
<section aria-labelledby="prompt"><h2 id="prompt">Prompt</h2>
{page.prompt}
</section>
{page.findings}<section aria-labelledby="trace"><h2 id="trace">Traces, step by step</h2>
{_steps(page.steps)}{page.answers}</section>
{_actions(page.actions)}</main>
<footer><nav aria-label="Files"><ul class="files">{page.links}\
<li><a href="compare-report.json">compare-report.json</a></li></ul></nav></footer>
</body>
</html>"""


def _steps(items: str) -> str:
    if not items:
        return _NO_STEPS
    heads = '<p class="heads" aria-hidden="true"><span>Baseline</span><span>New</span></p>'
    return f'{heads}\n<ol class="steps">\n{items}</ol>\n'


def _actions(rows: str) -> str:
    if not rows:
        return ""
    return f"""<section aria-labelledby="actions"><h2 id="actions">Proposed actions</h2>
<div class="scroll" role="region" aria-label="Proposed actions" tabindex="0"><table class="wide">\
<thead><tr><th scope="col">Side</th><th scope="col">Action</th><th scope="col">Risk</th>\
<th scope="col">Parameters</th><th scope="col">Evidence</th></tr></thead><tbody>
{rows}</tbody></table></div></section>
"""
