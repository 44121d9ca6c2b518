"""Words that rules look for."""


def words_of(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Verbs that ask for something where they start a sentence or a line.
TASK_VERBS = words_of(
    """
    act adapt add address advise aggregate align analyse analyze answer apply articulate ask assess
    assist assume audit automate balance begin break brainstorm build calculate capture categorise
    categorize change check choose cite clarify classify clean coach code collect combine compare
    compile complete compose compute conduct configure consider construct continue convert correct
    create critique customize debug decide decompose deduplicate define deliver demonstrate derive
    describe design detail detect determine develop diagnose discuss display document draft draw
    edit employ enhance ensure enumerate establish estimate evaluate examine execute expand explain
    explore extract facilitate find fix follow forecast format formulate gather generate give group
    guide handle help highlight identify imagine implement improve include infer inspect integrate
    interpret investigate iterate justify keep label lead let list locate look make manage map match
    measure merge migrate mirror model modernize monitor name negotiate note offer optimise optimize
    organise organize outline output paraphrase parse perform pick plan play polish predict prepare
    present print prioritise prioritize process produce proofread propose provide question rank rate
    read reason recommend record refactor refine reflect remove rephrase replace reply report
    represent research resolve respond restate restructure return review revise rewrite role-play
    roleplay run scan schedule scope score search select send show simulate simplify solve sort
    specify split standardize start state structure study suggest summarise summarize support
    synthesise synthesize tag take teach tell test think track train transcribe transform translate
    triage troubleshoot update use validate verify visualise visualize walk write
    """
)
# Words that say what an answer looks like.
FORMAT_WORDS = words_of(
    """
    json yaml xml csv tsv html markdown table tables bullet bullets bulleted numbered sections
    headings schema template format formatted structured paragraph paragraphs sentence sentences
    words characters checklist diagram mermaid column columns rows fields deliverable deliverables
    code-block matrix
    """
)
# The last words of variables that bring in whole texts, and the first words of those of strangers.
OUTSIDE_TEXTS = words_of(
    """
    text texts content contents document documents transcript transcripts article articles code
    diff log logs snippet snippets conversation comments body input
    """
)
OUTSIDERS = words_of("pasted paste raw retrieved scraped untrusted")
# Sections with such a first word are about a prompt rather than part of it.
ABOUT_A_PROMPT = words_of(
    """
    tips related references research changelog use variables example examples sample usage
    governance notes metadata description resources license credits contributing
    """
)
FILLERS = words_of("the a an any your their its all this that of to and or in on for with")
