"""Whether a user leaves it to some content what is to be done: one table for each language."""

# ruff: noqa: E501, RUF001 (a table is read by its lines; letters of other scripts)

from functools import cache

import re2

# The words for carrying out, and for what holds the orders or the one who gives them.
_CARRIED_OUT: dict[str, tuple[str, str]] = {
    "de": (
        r"befolg|folg|erledig|führ|mach|tu |tue |arbeit|setz|wend|handl|halt|nutz|verwend|lad|bearbeit|kümmer",
        r"anweisung|aufgabe|schritt|anleitung|liste|vorgabe|steht|stehen|sagt|schreibt|verlangt|wünscht|bittet|empf|beschrieb|proze|verfahren|skill|handbuch|leitfaden|notiz|zettel|ticket|anfrage|was ",
    ),
    "es": (
        r"sigue|siga|haz |haga|ejecut|realiz|cumpl|atiend|aplic|carg|usa |resuelv|encárg|ocúp",
        r"instruccion|tarea|paso|lo que|indica|lista|procedimiento|guía|manual|pide|nota|recomienda|ticket|solicitud|habilidad|skill",
    ),
    "fr": (
        r"suis|suivez|suivre|fais|faites|exécut|appliqu|charge|utilis|trait|occup|réalis|effectu",
        r"instruction|consigne|tâche|étape|ce que|ce qu'|liste|procédure|guide|manuel|demand|note|recommand|compétence|ticket|indiqu",
    ),
    "it": (
        r"segui|esegui|fai |fa' |faccia|applic|carica|usa |svolg|occup|gestisc",
        r"istruzion|compit|passagg|quello che|ciò che|quanto|lista|elenco|procedura|guida|manuale|chied|nota|consigli|ticket|scritto",
    ),
    "pt": (
        r"siga|segue|faça|faz |execut|cumpr|realiz|aplic|carreg|use |atend|trat",
        r"instruç|tarefa|passo|o que|lista|procedimento|guia|manual|pede|bilhete|nota|recomend|ticket|chamado|escrito|indica",
    ),
    "nl": (
        r"volg|doe |voer|werk|pas |gebruik|laad|handel|regel|behandel",
        r"instructie|taken|taak|stappen|stap|wat |lijst|draaiboek|procedure|handleiding|vraagt|briefje|notitie|ticket|beschreven|staat",
    ),
    "pl": (
        r"zrób|wykonaj|postępuj|zrealizuj|zastosuj|załaduj|użyj|zajmij|obsłuż|załatw",
        r"instrukcj|polece|zadani|krok|co |czym|list|procedur|prosi|napis|notat|zgłoszeni|opis|zaleca",
    ),
    "cs": (
        r"udělej|proveď|postupuj|vykonej|splň|použij|vyřiď",
        r"instrukc|pokyn|úkol|krok|co |seznam|postup|návod|píše|napsán|poznám|žádá",
    ),
    "sv": (
        r"gör |följ|utför|kör |använd|ladda|hantera|genomför",
        r"instruktion|uppgift|steg|det som|vad |lista|rutin|handbok|står|lapp|ber |anteckning|ärende",
    ),
    "ru": (
        r"выполни|следуй|сделай|исполни|действуй|примени|загрузи|используй|обработай",
        r"инструкц|указан|задан|задач|шаг|написан|то,? (?:что|о ч)|всё,? что|все,? что|спис|процедур|руководств|просит|заметк|запис|навык|заявк|обращени",
    ),
    "uk": (
        r"виконай|дій|зроби|дотримуйся|застосуй|завантаж|використай|опрацюй",
        r"інструкц|вказівк|завдан|крок|написан|те,? що|все,? що|усе,? що|спис|процедур|просить|нотат|запис|заявк",
    ),
    "el": (
        r"κάνε|ακολούθησε|εκτέλεσε|εφάρμοσε|χειρίσου",
        r"οδηγί|εντολ|εργασί|βήμα|ό,τι|ότι|αυτό που|λίστα|διαδικασ|γράφει|σημείωμα|ζητά",
    ),
}
# Here the order of the two is the other way round, or does not tell.
_EITHER_WAY: dict[str, tuple[str, str]] = {
    "tr": (
        r"uygula|yap|yerine getir|takip et|izle|yürüt|hallet|çalıştır",
        r"talimat|görev|adım|yazan|yazıl|istedi|liste|prosedür|kılavuz|söyledi|not",
    ),
    "ar": (
        r"نفّذ|نفذ|اتبع|افعل|قم ب|طبّق|طبق|أنجز|استخدم|حمّل",
        r"تعليمات|مكتوب|مهام|المهم|خطوات|ما هو|ما ور|ما طلب|ما يطلب|ما يقول|قائمة|الإجراء|دليل|ملاحظ",
    ),
    "he": (
        r"בצע|עשה|עקוב|פעל|טען|השתמש|טפל",
        r"הוראות|הנחיות|משימ|שלבים|מה ש|כתוב|רשימ|נוהל|מדריך|פתק",
    ),
    "hi": (
        r"कर|पालन|अमल|निभा",
        r"निर्देश|लिखा|कार्य सूची|चरण|जो |सूची|प्रक्रिया|बताया|कहा",
    ),
    "zh": (
        r"按照|按|依照|根据|照着|遵循|执行|完成|处理|照做|加载|使用",
        r"说明|指示|任务|步骤|要求|待办|清单|流程|指南|手册|写的|说的|所说|所写|工单|技能",
    ),
    "ja": (
        r"従っ|従い|実行|やっ|対応|行っ|通りに|とおりに|進め|処理|こなし|使っ|読み込",
        r"指示|手順|タスク|依頼|書い|書かれ|メモ|リスト|マニュアル|ガイド|言っ|スキル|記載",
    ),
    "ko": (
        r"따라|따르|처리|실행|수행|해 ?줘|해 ?주|하세요|대로",
        r"지시|적힌|적혀|쓰인|써|할 ?일|목록|절차|단계|안내|설명서|요청|시킨|메모",
    ),
    "vi": (
        r"làm theo|thực hiện|tuân|hoàn thành|xử lý|làm |áp dụng",
        r"hướng dẫn|chỉ dẫn|yêu cầu|bước|danh sách|những gì|viết|ghi|quy trình|nhiệm vụ|ghi chú",
    ),
    "id": (
        r"ikuti|kerjakan|lakukan|jalankan|laksanakan|selesaikan|terapkan|tangani",
        r"instruksi|petunjuk|langkah|tugas|tertulis|daftar|prosedur|yang diminta|panduan|catatan|perintah",
    ),
    "th": (
        r"ทำตาม|ปฏิบัติ|ดำเนินการ|จัดการ|ทำ",
        r"คำสั่ง|คำแนะนำ|ที่เขียน|ขั้นตอน|รายการ|งาน|คู่มือ|โน้ต|ที่บอก",
    ),
}
_GAP = r"[^.!?\n]{0,50}?"


@cache
def _pattern(language: str) -> "re2._Regexp[str]":
    if language in _CARRIED_OUT:
        do, what = _CARRIED_OUT[language]
        return re2.compile(rf"(?i)(?:^|[^\pL])(?:{do}){_GAP}(?:{what})")
    do, what = _EITHER_WAY[language]
    return re2.compile(rf"(?i)(?:{do}){_GAP}(?:{what})|(?:{what}){_GAP}(?:{do})")


def entrusts_abroad(said: str) -> bool:
    """Whether words that are not English hand over to a document or a message what to do."""
    said = said.encode("utf-8", "replace").decode()
    languages = (*_CARRIED_OUT, *_EITHER_WAY)
    return any(_pattern(language).search(said) is not None for language in languages)
