"""Signs of documents that are no prompts, in many languages, and of a text that speaks to a model.

All are looked for in lower case, unless a pattern says otherwise.
"""

import re
from typing import Literal

from evalwright.prompts.patterns import quick_pattern, when_used

DocumentKind = Literal[
    "scaffold",
    "lorem_ipsum",
    "keyword_salad",
    "licence",
    "code_of_conduct",
    "changelog",
    "log",
    "community",
    "decision_record",
    "readme",
    "recipe",
    "code",
    "to_do_list",
    "minutes",
    "letter",
    "contract",
    "specification",
    "no_instructions",
]
# What each kind is called in a sentence: “Not a prompt but …”.
DESCRIPTIONS: dict[DocumentKind, str] = {
    "scaffold": "a scaffold that was never filled in",
    "lorem_ipsum": "filler text",
    "keyword_salad": "a heap of keywords",
    "licence": "a licence",
    "code_of_conduct": "a code of conduct",
    "changelog": "a change log",
    "log": "the output of a program",
    "community": "a page for contributors",
    "decision_record": "a record of a decision",
    "readme": "documentation of a project",
    "recipe": "a recipe",
    "code": "code or data",
    "to_do_list": "a list of things to do",
    "minutes": "the minutes of a meeting",
    "letter": "a letter",
    "contract": "a contract",
    "specification": "a specification",
    "no_instructions": "a text without instructions",
}
# Documents that belong to a project: in a folder they are passed over. The others were meant to be
# prompts, or nobody can tell, and fail.
PASSED_OVER: frozenset[DocumentKind] = frozenset(
    {
        *("licence", "code_of_conduct", "changelog", "log", "community", "decision_record"),
        *("readme", "recipe", "code", "to_do_list", "minutes", "letter", "contract"),
        "specification",
    }
)
# How a text addresses a model, for each language: a pattern, compiled where it is needed.
ADDRESSES: dict[str, str] = {
    "en": (
        r"\b(?:you(?: are|'re) (?:an?|the|now|my|going|given|helping|tasked|asked|provided|to)\b"
        r"|you will (?:be|act|receive|provide|help|read|play|write)\b"
        r"|(?:act|behave|respond|answer|serve) as\b|i (?:want|need|would like) you to\b|role-?play"
        r"|your (?:task|role|job|goal|mission|objective|output|response|answer|purpose)"
        r"(?: (?:is|are|will|should|must)\b|[:*])|(?:respond|reply|answer) (?:with|in|only)\b"
        r"|(?:return|output) (?:only|a json|json|the)\b(?![.(])"
        r"|the (?:assistant|model|llm|ai) (?:should|must|will)\b)"
    ),
    "zh": (
        "你是|您是|你将|你的|请你|扮演|作为一|我希望你|我想让你|请(?:根据|将|用|以|为|把|对|按)"
    ),
    "ja": "あなたは|あなたの|してください|演じ|なりきっ|振る舞|口調|下さい",
    "ko": "당신은|당신의|너는|귀하|해주세요|하십시오|하세요|해야 합니다|주십시오",
    "ru": (
        r"\b(?:ты|вы) (?:—|-|–|являешься|являетесь|будешь|будете|долж\w+|профессионал\w*"
        r"|эксперт\w*)"
        r"|\b(?:твоя|ваша) (?:задача|роль|цель)|\b(?:действуй|выступай|как эксперт)"
    ),
    "de": (
        r"\b(?:du (?:bist|sollst|wirst|musst)|sie (?:sind (?:ein|der|die)|sollen|werden gebeten)"
        r"|(?:deine|ihre) (?:aufgabe|rolle)|(?:handle|agiere|fungiere) als|antworte)\b"
    ),
    "fr": (
        r"\b(?:tu es|vous êtes|(?:ta|votre) (?:tâche|mission)|(?:ton|votre) rôle|agis|agissez"
        r"|tu dois|vous devez|veuillez|je (?:veux|souhaite) que (?:tu|vous))\b"
    ),
    "es": (
        r"\b(?:eres (?:un|una|el|la|mi)|(?:tu|su) (?:tarea|rol|objetivo)|actúa|actúe|actuarás"
        r"|responde"
        r"|debes|deberás|quiero que)\b"
    ),
    "pt": (
        r"\b(?:você (?:é|será|deve|vai|precisa)|(?:sua|tua) (?:tarefa|função)|seu (?:papel"
        r"|objetivo)"
        r"|(?:aja|atue) como)\b"
    ),
    "it": (
        r"\b(?:sei (?:un|una|uno|il|lo|la)\b|sei l'|il tuo (?:compito|ruolo|obiettivo)\b|agisci\b"
        r"|devi\b)"
    ),
    "nl": r"\b(?:je bent|jij bent|u bent|jouw taak|je taak|gedraag je)\b",
    "pl": (
        r"\b(?:jesteś|two(?:im|ja|je) (?:zadani\w+|rol\w+|cel\w+)|działaj jako|musisz|proszę)\b"
    ),
    "tr": r"\b(?:sen (?:bir|artık)|sensin|görevin|rolün|hareket et|lütfen)|malısın",
    "vi": r"\b(?:bạn (?:là|sẽ|phải|cần|hãy)|nhiệm vụ của bạn|hãy|đóng vai)\b",
    "ar": "أنت |مهمتك|دورك|تصرف |بصفتك|يجب عليك|عليك أن|قم ب",
    "fa": "شما (?:یک|به|باید)|تو (?:یک|باید)|وظیفه (?:شما|تو)|نقش (?:شما|تو)|لطفا",
}
ROLE_TITLES = when_used(
    r"^(?:role|roles|persona|profile|identity|task|instructions?|constraints?|workflow|skills?"
    r"|goals?|rules"
    r"|steps|output(?: format| instructions)?|rolle|aufgabe|fähigkeiten|richtlinien"
    r"|einschränkungen|rôle|tâches?"
    r"|compétences|contraintes|rol|tarea|capacidades|restricciones|papel|função|habilidades"
    r"|restrições|ruolo"
    r"|compito|capacità|vincoli|rola|zadanie|umiejętności|ograniczenia|görev|yetenekler|kurallar"
    r"|vai trò|nhiệm vụ"
    r"|kỹ năng|роль|задач[аи]|навыки|ограничения|правила|角色|任务|技能|限制|约束|目标|工作流程?"
    r"|规则|役割|タスク|制約条件?"
    r"|条件|命令|指示|역할|능력|지침|규칙|작업|제약|الدور|المهارات|القيود|المهمة|نقش|وظایف|قوانین"
    r"|محدودیت)\b"
)
# A file that calls itself one is no document of another kind.
PROMPT_NAMES = when_used(
    r"(?:^|[-_. ])(?:prompts?|system|user|instructions?|rules?|cursorrules|mdc|agents?|claude"
    r"|gemini|skill"
    r"|skprompt|prompty|jinja2?|persona|chatmode)(?:[-_. ]?v?\d+)?$"
)
# Where people look for what a tool does, unless a folder below holds what models are told.
DOCS_FOLDER = when_used(
    r"(?:^|/)(?:docs?|documentation)/(?![^\n]*(?:prompt|agent|skill|rule|instruct)[^/\n]*/)"
)
_LOCALE = r"(?:[-_. ](?:[a-z]{2,3}|[a-z]{2}[-_][a-z]{2,4}))?$"
# Names that leave no doubt, and those that need other signs beside them.
DOCUMENT_NAMES: dict[DocumentKind, re.Pattern[str]] = {
    "licence": when_used(rf"^(?:licen[sc]e|copying|unlicense){_LOCALE}"),
    "code_of_conduct": when_used(rf"^code[-_ ]?of[-_ ]?conduct{_LOCALE}"),
    "changelog": when_used(rf"^change[-_ ]?log{_LOCALE}"),
    "readme": when_used(rf"^read[-_ ]?me{_LOCALE}"),
    "community": when_used(
        rf"^(?:contributing|contributors|security|support|governance|maintainers){_LOCALE}"
    ),
}
README_OF = when_used(rf"[-_. ]read[-_ ]?me{_LOCALE}")

LICENCE_PHRASES = (
    *("permission is hereby granted", "redistribution and use in source", "gnu general public"),
    *("as is", "without warrant", "licensed under the", "shall not be liable", "warranty of"),
    *("apache license", "mit license", "mozilla public license", "creative commons", "cc0"),
    *("copyright holder", "sublicense", "derivative works", "all rights reserved", "affirmer"),
    *("terms and conditions", "to the extent possible under law", "hereby grants", "licensor"),
    *("gewährleistung", "urheberrecht", "lizenzgeber", "hiermit wird", "droits d'auteur"),
    *("concédée", "garantie", "concédant", "licenciante", "por la presente", "derechos de autor"),
    *(
        "garantía",
        "direitos autorais",
        "garantia de qualquer",
        "licenciado sob",
        "diritto d'autore",
    ),
    *("licenziante", "garanzia", "praw autorskich", "licencjodawca", "gwarancji", "telif hakkı"),
    *("lisans veren", "garanti", "лицензиар", "авторск", "настоящим предоставляется", "гаранти"),
    *("版权", "许可证", "许可协议", "不提供任何", "担保", "著作権", "ライセンス", "無保証", "許諾"),
    *("저작권", "라이선스", "보증", "حقوق النشر", "ترخيص", "ضمان", "حق نشر", "مجوز", "bản quyền"),
    *("giấy phép", "bảo hành"),
)
LICENCE_TITLE = when_used(
    r"\b(?:licen[sc]e|lizenz|licencia|licença|licenza|licencja|lisans|лицензия)$"
    r"|许可证$|许可协议$|ライセンス$|라이선스$|ترخيص$|giấy phép$"
)
CONDUCT_PHRASES = (
    *("contributor covenant", "code of conduct", "our pledge", "our standards", "harassment"),
    *("unacceptable behavior", "enforcement", "reported to", "welcoming", "verhaltenskodex"),
    *("belästigung", "unser versprechen", "code de conduite", "harcèlement", "notre engagement"),
    *(
        "código de conducta",
        "acoso",
        "código de conduta",
        "assédio",
        "codice di condotta",
        "molesti",
    ),
    *(
        "kodeks postępowania",
        "nękani",
        "davranış kuralları",
        "taciz",
        "кодекс поведения",
        "домогательств",
    ),
    *(
        "行为准则",
        "骚扰",
        "我们的承诺",
        "行動規範",
        "ハラスメント",
        "행동 강령",
        "괴롭힘",
        "قواعد السلوك",
        "تحرش",
    ),
    *("آیین‌نامه", "آزار", "quy tắc ứng xử", "quấy rối"),
)
COMMUNITY_PHRASES = (
    *("pull request", "open an issue", "file an issue", "raise an issue", "new issue", "issues"),
    *("contributions", "contributors", "maintainers", "fork", "code of conduct", "this project"),
    *("vulnerabilit", "bug report", "feature request", "by participating", "thank you for"),
    *(
        "beitrag",
        "contribuer",
        "contribuci",
        "contribuiç",
        "contribuire",
        "katkı",
        "贡献",
        "コントリビュ",
    ),
    *("プルリクエスト", "기여", "вклад", "участи", "المساهمة", "مشارکت", "đóng góp"),
)
DECISION_TITLES = when_used(
    r"^(?:context and problem statement|decision drivers|considered options|decision outcome"
    r"|pros and cons of the options|consequences|alternatives considered|decision|rationale"
    r"|status)\b"
)
README_TITLES = when_used(
    r"^(?:(?:quick ?)?(?:install\w*|setup|getting started|quick ?start|usage|contribut\w+"
    r"|licen[sc]e|features"
    r"|requirements|prerequisites|building|testing|table of contents|documentation|roadmap"
    r"|acknowledge?ments"
    r"|credits|support|development|faq|tracing|providers|how it works)"
    r"|erste schritte|mitwirken|lizenz|verwendung|funktionen|voraussetzungen|inhaltsverzeichnis"
    r"|utilisation"
    r"|contribuer|licence|fonctionnalités|prérequis|instalación|instalação|uso|licencia|licença"
    r"|contribuir"
    r"|características|recursos|installazione|utilizzo|licenza|instalacja|użycie|licencja|kurulum"
    r"|kullanım"
    r"|lisans|katkı\w*|cài đặt|sử dụng|giấy phép|установка|использование|лицензия|возможности"
    r"|быстрый старт"
    r"|安装|快速开始|使用方法|使用|许可证?|贡献|特性|功能|インストール|クイックスタート|使い方"
    r"|ライセンス|貢献|機能"
    r"|설치|빠른 시작|사용법|라이선스|기여|기능|التثبيت|الاستخدام|الترخيص|المساهمة|نصب|استفاده"
    r"|مجوز)\b"
)
ENDPOINT = when_used(r"(?:get|post|put|patch|delete|head|options) /")
BADGE = when_used(
    r"\[!\[[^\]\n]{0,200}\]\(|<img [^>\n]{0,400}(?:badge|shields\.io|\.svg)", re.IGNORECASE
)
_INSTALLS = (
    r"[ \t$>]*(?:pip3?|npm|yarn|pnpm|brew|cargo|go|apt(?:-get)?|docker|git|gem|composer|uv|make"
    r"|conda|npx)"
    r" (?:install|add|i|get|clone|run|pull|build|test|init|-)"
)
INSTALL_COMMAND = when_used(rf"^{_INSTALLS}\b", re.MULTILINE)
_DIGIT_ELSEWHERE = rb"[\xd9\xdb\xdf\xe0\xe1\xea\xef]|\xf0[\x90-\x9e]|\xf0\x9f\xaf"  # in UTF-8
# What is in every text, in lower case, that holds a phrase, a badge, a command or a release.
ANY_SIGN = quick_pattern(
    rb"|".join(
        (
            *(
                re.escape(each).encode()
                for each in sorted({*LICENCE_PHRASES, *CONDUCT_PHRASES, *COMMUNITY_PHRASES})
            ),
            rb"\[!\[|<img ",
            f"(?m:^){_INSTALLS}".encode(),
            rb"(?m:^)(?:#{1,4}[ \t]*)?\[?v?(?:\d{1,4}\.[\d\x80-\xff]|%b)" % _DIGIT_ELSEWHERE,
            rb"(?m:^)#{1,4}[ \t]*\[?unreleased",
        )
    )
)
PROJECT_WORDS = frozenset(
    """
    package packages library libraries module modules install installed installing installation
    repository repo github gitlab license licensed licence version versions documentation docs
    issue issues pull contribute contributing contributors contributions build builds project
    projects npm pip release releases released bug bugs maintainer maintainers vulnerability
    vulnerabilities plugin dependency dependencies upstream compile compiled supported debian
    linux windows
    """.split()
)
RELEASE_HEADING = when_used(
    r"^(?:#{1,4}[ \t]*)?\[?v?\d{1,4}\.\d{1,4}(?:\.\d{1,4})?[\w.+-]{0,20}\]?(?:\([^)\n]{0,200}\))?"
    r"[ \t]*(?:[-–—(:/][ \t]*|$)|^#{1,4}[ \t]*\[?(?:unreleased|v?\d{1,4}\.\d{1,4})",
    re.MULTILINE | re.IGNORECASE,
)
LOG_LINE = when_used(
    r"^\s*(?:\[?\d{4}[-/.]\d\d[-/.]\d\d[T ,_]+\d\d:\d\d|\[?\d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d"
    r"|\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL)\b|\d{1,3}(?:\.\d{1,3}){3} |[$>#%] \S|✓|✗"
    r"|at [\w.$<>]+\("
    r"|Traceback \(|File \"|npm (?:ERR|WARN)|\S+\s+[\d.]+ [kKM]?B\b|(?:PASS|FAIL|ok|not ok)\b)"
)
LOREM_WORDS = frozenset(
    """
    lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut
    labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris
    nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate velit esse
    cillum eu fugiat nulla pariatur excepteur sint occaecat cupidatat non proident sunt culpa
    qui officia deserunt mollit anim id est laborum vivamus luctus urna ultricies ac sagittis
    condimentum facilisis porta nec diam mattis viverra fringilla orci euismod semper porttitor
    mauris sollicitudin sapien justo libero vestibulum mollis morbi rutrum elementum donec
    auctor lobortis pellentesque placerat dignissim a bibendum etiam scelerisque nunc egestas
    odio nibh eget vel
    """.split()
)
JARGON_WORDS = frozenset(
    """
    prompt prompts ai chatgpt gpt expert role persona task tasks goal objective context
    instructions instruction steps step output input format json table markdown bullet bullets
    list example examples constraints constraint tone audience style variables generate analyze
    write summarize explain compare provide create include must always never ensure avoid act
    specialist professional structured comprehensive sections words items points tips free best
    engineering generator topic
    """.split()
)
_UNITS = (
    r"(?:g|kg|mg|ml|cl|dl|l|tbsp|tsp|cups?|oz|lbs?|cloves?|tablespoons?|teaspoons?|pinch|el|tl"
    r"|prise"
    r"|cuillères?|gousses?|cucharad\w+|dientes?|tazas?|colher\w*|xícaras?|dentes?|cucchiai\w*"
    r"|spicch\w+|łyżk\w+|łyżeczk\w+|szklank\w+|ząbk\w+|yemek kaşığı|çay kaşığı|su bardağı|diş|muỗng"
    r"|thìa|quả|củ|г|кг|мл|л|ст|ч|стакан\w*|зубчик\w*|шт|large|small|medium|œufs?|eggs?|eier"
    r"|huevos?|ovos|uova|jaj\w*|яйц\w*|яиц\w*)\b"
    r"|克|毫升|勺|汤匙|茶匙|个|只|片|グラム|cc|カップ|個|本|枚|큰술|작은술|컵|개|그램|غرام|جرام"
    r"|ملعقة|كوب|گرم"
    r"|قاشق|پیمانه"
)
QUANTITY_LINE = when_used(
    r"^[ \t]*[-*+•・●]?[ \t]*(?:[\d½¼¾⅓/.,-]{1,8}|[一二三四五六七八九十半两]{1,3}|大さじ|小さじ)"
    rf"[ \t]*\d{{0,3}}[ \t]*(?:{_UNITS})",
    re.MULTILINE | re.IGNORECASE,
)
RECIPE_WORDS = (
    *("ingredient", "zutaten", "ingrédient", "składniki", "malzemeler", "nguyên liệu"),
    *("ингредиенты", "состав", "材料", "食材", "配料", "用料", "재료", "المقادير", "المكونات"),
    *("مواد لازم", "ingrediënten"),
)
RECIPE_TITLES = when_used(rf"^(?:{'|'.join(RECIPE_WORDS)})(?:s|es|i)?\b")
# What is left for somebody to write; a text without any of the signs has no such mark.
FILL_IN_SIGNS = (
    *(
        "todo",
        "tbd",
        "xxx",
        "_name",
        "here]",
        "here>",
        "goes here",
        "待填",
        "待补充",
        "请填写",
        "在此",
        "ここに",
        "여기에",
        "здесь",
    ),
    *(" einfügen", " eintragen"),
)
ANY_FILL_IN = quick_pattern("|".join(map(re.escape, FILL_IN_SIGNS)).encode())
FILL_IN_MARK = when_used(
    r"\b(?:todo|tbd|(?<!-)xxx+(?!-)|your[_ ]\w{2,20}[_ ]name|(?:role|prompt|project)_name"
    r"|describe your"
    r"|goes here"
    r"|(?:describe|insert|add|enter|write|fill in|put|replace)\b[^.\n\]]{0,40}\bhere)\b"
    r"|待填|待补充|请填写|在此(?:填写|输入)|ここに|여기에|здесь (?:напиш|впиш|вставь)"
    r"|hier (?:einfügen|eintragen)"
)
# Each mark holds one of these.
FILL_IN_PARTS = (
    *("todo", "tbd", "xxx", "name", "describe your", "here", "待填", "待补充", "请填写", "在此"),
    *("ここに", "여기에", "здесь ", "hier ein"),
)
# The title of a file, if nobody has chosen one yet: `Role: Your_Role_Name`, `[Prompt title]`.
BLANK_TITLE = when_used(
    r"(?:^|[\s:])(?:your_)?[a-z]+_name$|^(?:\[[^\[\]]+\s[^\[\]]+\]|<[^<>]+\s[^<>]+>"
    r"|\{[^{}]+\s[^{}]+\})$"
)
BLANKS = when_used(
    r"<!--.{0,2000}?-->|\[[^\[\]\n]{0,120}\]|<[^<>\n]{1,120}>|\{\{[^{}\n]{0,120}\}\}"
    r"|^[ \t]*#{1,6}[^\n]*$|^[ \t]*(?:```|~~~)[^\n]*$"
    r"|(?:^[ \t>*+-]*|[:：|(\[][ \t]*)(?:todo|tbd|tba|fixme|xxx+|n/a)\b[^\n]*"
    r"|[|:_*.-]{3,}",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
