"""Passages of untrusted text that tell a reader what to say: a machine, or in answers to users.

There is one table for each kind of word, by language. Words of scripts without spaces may stand
anywhere; a star stands for any ending.
"""

# ruff: noqa: E501, RUF001 (a table is read by its lines; letters of other scripts)

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec
import re2

from evalwright.signals.matching import occurs_in, spans_in

# Who reads a text for others.
_MACHINES = {
    "en": "automated\\s* autonomous\\sagent* software\\sagent* copilot copilots ai ais llm llms assistant assistants chatbot chatbots chat-bot* bot bots gpt language\\smodel language\\smodels ai-* virtual\\sagent* answering\\sagent* reading\\sagent* responding\\sagent* reviewer\\smodel* whoever\\sprocess* whoever\\ssummari* whoever\\sindex* whoever\\scrawl*",
    "de": "roboter* maschinenleser* ki kis ki-* sprachmodell* assistent assistenten assistenz* sprachassistent*",
    "fr": "robot robots assistant\\svirtuel* assistants\\svirtuels ia ias intelligence\\sartificielle intelligences\\sartificielles modèle\\sde\\slangage modèles\\sde\\slangage agent\\sconversationnel*",
    "es": "asistente asistentes inteligencia\\sartificial inteligencias\\sartificiales modelo\\sde\\slenguaje modelos\\sde\\slenguaje",
    "it": "assistente assistenti intelligenza\\sartificiale intelligenze\\sartificiali modello\\slinguistico modelli\\slinguistici",
    "pt": "assistentes inteligência\\sartificial inteligências\\sartificiais modelo\\sde\\slinguagem modelos\\sde\\slinguagem robô*",
    "nl": "assistent assistenten ai-* taalmodel* kunstmatige\\sintelligentie",
    "pl": "asystent* model*\\sjęzykow* sztuczn*\\sinteligen*",
    "ru": "ии ии-* ассистент* помощник* нейросет* чат-бот* бот боты ботов ботам языков*\\sмодел* искусственн*\\sинтеллект*",
    "uk": "ші асистент* помічник* чат-бот* мовн*\\sмодел* штучн*\\sінтелект*",
    "cs": "asistent* jazykov*\\smodel* uměl*\\sinteligen*",
    "sk": "asistent* jazykov*\\smodel* umel*\\sinteligen*",
    "ro": "asistent* asistenți* model*\\sde\\slimbaj* inteligenț*\\sartificial*",
    "hu": "asszisztens* nyelvi\\smodell* mesterséges\\sintelligenci*",
    "sv": "språkmodell* assistenter ai-* chattbot*",
    "da": "sprogmodel* assistenter ai-*",
    "no": "språkmodell* assistenter ki-*",
    "fi": "tekoäly* kielimall* avustaj* botti botit boteille",
    "tr": "yapay\\szek* asistan* dil\\smodel* sohbet\\sbot*",
    "el": "τεχνητή* τεχνητής* γλωσσικ*\\sμοντέλ* βοηθό βοηθός βοηθοί βοηθούς",
    "he": "בינה\\sמלאכותית הבינה\\sהמלאכותית מודל*\\sשפה עוזר* לעוזר*",
    "ar": "روبوتات* لروبوت* لمساعد* لمساعدي* لنماذج* نماذج* الذكاء\\sالاصطناعي مساعدي* مساعد* المساعد* للمساعد* نموذج*\\sلغوي* نموذج*\\sاللغوي* للنموذج* النموذج\\sاللغوي* روبوت*",
    "fa": "هوش\\sمصنوعی دستیار* مدل*\\sزبانی",
    "hi": "एआई सहायक* चैटबॉट*",
    "vi": "trợ\\slý mô\\shình\\sngôn\\sngữ",
    "id": "asisten* model*\\sbahasa* kecerdasan\\sbuatan",
}
_MACHINES_UNSPACED = "人工智能|人工智慧|助手|助理|大模型|语言模型|語言模型|智能体|机器人|機器人|アシスタント|言語モデル|エージェント|ボット|인공지능|인공 지능|비서|어시스턴트|챗봇|언어 모델|ผู้ช่วย|ปัญญาประดิษฐ์|แชทบอท|โมเดลภาษา|সহকারী|এআই"
# What is to be done with words, as orders have it.
_SAYING = {
    "en": "convey attribute rank blame name describe present rate contain contains let explain finishes ends begins tell say state inform advise assure notify alert warn remind mention recommend claim announce declare insist reply respond answer speak starting write output print repeat report conclude end finish begin start close add append include suggest promote advertise confirm promise pretend",
    "de": "enden endet lauten anfangen anfängt hinweisen ankündigen kündige kündigen melden sag sage sagt sagen schreib schreibe schreibt schreiben teile teilen informiere informiert informieren antworte antwortet antworten erwähne erwähnt erwähnen behaupte behauptet behaupten empfiehl empfehlt empfehlen nenne nennt nennen melde meldet melden beende beendet beenden beginne beginnt beginnen füge fügt fügen erkläre erklärt erklären berichte berichtet berichten weise weist weisen bestätige bestätigt bestätigen gib gebt geben ergänze ergänzt ergänzen schließe schließt schließen verkünde verkünden rate raten lautet",
    "fr": "répond ajoutera ajouteront dira diront mentionnera mentionneront précisera préciseront orientez orienter renvoyez annonceront finir finissez débuter dis dites dire informe informez informer réponds répondez répondre écris écrivez écrire mentionne mentionnez mentionner ajoute ajoutez ajouter recommande recommandez recommander affirme affirmez affirmer annonce annoncez annoncer signale signalez signaler précise précisez préciser indique indiquez indiquer termine terminez terminer commence commencez commencer conclus concluez conclure confirme confirmez confirmer prétends prétendez conseille conseillez conseiller avertis avertissez",
    "es": "indicad empezar empieza terminando comenzar comience finalizar finaliza finalice anunciad recomendad mencionad comunicad escribiendo dirá dirán responderá responderán di diga digan digas decid decir dile dígale díganle informa informe informad informen informar responde responda responded respondan responder contesta conteste contesten contestar escribe escriba escribid escriban escribir menciona mencione mencionen mencionar agrega agregue agreguen agregar añade añada añadid añadan añadir recomienda recomiende recomienden recomendar afirma afirme afirmen afirmar anuncia anuncie anuncien anunciar termina termine terminad terminen terminar empieza empiece concluye concluya concluir indica indique indiquen indicar avisa avise avisen avisar comunica comunique comuniquen comunicar asegura asegure confirma confirme",
    "it": "finire finisci iniziare inizi dirà diranno risponderà risponderanno orientate di' dì dica dite dire dille digli comunica comunichi comunicate comunicare informa informi informate informare rispondi risponda rispondete rispondere scrivi scriva scrivete scrivere scrivendo menziona menzioni menzionate menzionare aggiungi aggiunga aggiungete aggiungere consiglia consigli consigliate consigliare raccomanda raccomandate afferma affermi affermate affermare annuncia annunciate termina termini terminate terminare concludi concluda concludete concludere inizia indica indichi indicate segnala segnalate conferma confermate",
    "pt": "comece começar finalize finalizar dirá dirão oriente orientem indicar diga digam dizer diz informe informem informar responda respondam responder escreva escrevam escrever mencione mencionem mencionar adicione adicionem adicionar acrescente acrescentem acrescentar recomende recomendem recomendar afirme afirmem afirmar anuncie anunciem termine terminem terminar conclua concluir comece avise avisem avisar comunique comuniquem indique indiquem confirme confirmem divulgue divulguem",
    "nl": "verwijs verwijzen adviseer adviseren afsluiten zeg zegt zeggen vertel vertelt vertellen meld meldt melden antwoord antwoordt antwoorden schrijf schrijft schrijven vermeld vermeldt vermelden voeg voegt toevoegen beveel aanbevelen informeer informeren eindig eindigen begin beginnen sluit raad deel",
    "pl": "stwierdzić twierdzić napisać dodać polecić polecać zakończyć odpowiedzieć odpowiadać nazwać powiedz powiedzcie powiedzieć poinformuj* informuj* odpowiedz* odpowiadaj* napisz* pisz dodaj* wspomnij* poleć* polecaj* stwierdź* twierdź* zakończ* rozpocznij* przekaż* oznajmij* potwierdź* doradź*",
    "ru": "назвать назови* назовите называ* заявить утверждать закончить завершить направляйте направь направьте рассказыва* расскажи* советовать скажи скажите сказать говори говорите сообщи сообщите сообщить сообщать ответь ответьте ответить отвечай отвечайте отвечать напиши напишите написать добавь добавьте добавить упомяни* порекоменду* рекоменду* посовету* советуй* заяви* закончи* заверши* начни* утвержда* передай* объяви* укажи* подтверди* предупреди*",
    "uk": "скажи скажіть сказати повідом* повідомляй* відповідай* відповісти відповідь* напиши напишіть написати додай* згадай* порадь* порекоменду* рекоменду* закінчи* заверши* почни* стверджуй* передай* вкажи* підтверди*",
    "cs": "řekni řekněte říct sděl* odpověz* odpovídej* napiš* uveď* doporuč* přidej* zakonči* informuj* tvrď* oznam* zmiň*",
    "sk": "povedz* odpovedz* napíš* uveď* odporuč* pridaj* ukonči* informuj* tvrď* oznám*",
    "ro": "spune spuneți spuneți-i informează informați răspunde răspundeți scrie scrieți adaugă adăugați recomandă recomandați menționează menționați anunță anunțați încheie încheiați afirmă afirmați",
    "hu": "mondd mondja mondjátok közöld közölje tájékoztas* tájékoztass* válaszolj* válaszoljon* írd írja írjátok említs* ajánld ajánlja ajánlj* jelentsd jelentse fejezd állítsd állítsa tedd erősítsd",
    "sv": "säg säga berätta svara skriv skriva nämn nämna rekommendera informera meddela avsluta inled upplys tipsa",
    "da": "sig fortæl svar skriv nævn anbefal informer oplys meddel afslut tilføj påstå",
    "no": "si fortell svar skriv nevn anbefal informer opplys meld avslutt legg påstå",
    "fi": "kerro kertokaa kerrottava sano sanokaa vastaa vastatkaa kirjoita kirjoittakaa mainitse lisää suosittele suositelkaa ilmoita ilmoittakaa lopeta aloita väitä vahvista",
    "tr": "söyle* bildir* yaz yazın* yazınız cevap yanıtla* belirt* ekle* öner* deyin bitir* başla* iddia açıkla* tavsiye",
    "el": "πες πείτε ενημέρωσ* ενημερώσ* απάντησ* απαντήσ* γράψε γράψτε ανάφερ* αναφέρ* πρόσθεσ* προσθέσ* σύστησ* συστήσ* δήλωσ* δηλώσ*",
    "he": "אמור אמרו תגיד* תגידו ענה ענו השב השיבו כתוב כתבו הודע הודיעו הוסף הוסיפו המלץ המליצו ציין ציינו",
    "ar": "وجه* وجهوا انصحوا اختم* اختتم* قل قولوا أخبر* اخبر* أجب* أجيبوا اكتب* أضف* أضيفوا اذكر* أبلغ* انصح* أعلن* أوص*",
    "fa": "بگو* بگویید پاسخ جواب بنویس* اضافه توصیه اعلام اطلاع",
    "hi": "कहो कहें कहिए बताओ बताएं बताएँ बताइए उत्तर जवाब लिखो लिखें जोड़ें जोड़ो सुझाव",
    "vi": "nói báo trả\\slời viết thêm đề\\sxuất khuyên thông\\sbáo",
    "id": "katakan* beri\\stahu beritahu* jawab* tulis* tambahkan* sebutkan* sarankan* rekomendasikan* sampaikan* informasikan* akhiri*",
}
_SAYING_UNSPACED = "必须是|应为|应当是|须为|说明|声明|付け加え|書き加え|述べる|説明|告诉|告訴|声称|宣称|说|說|回答|回复|回覆|答复|输出|輸出|写|寫|加上|声明|聲明|推荐|推薦|提到|通知|伝え|答え|言っ|言い|書く|書い|書き|返信|出力|述べ|勧め|推薦|案内|追記|말하|말해|전하|전해|알려|알리|답하|답해|대답|쓰세요|쓰시오|작성|추천|덧붙|안내|출력|บอก|ตอบ|แจ้ง|เขียน|แนะนำ|বলুন|বলো|জানান|লিখুন"
# Whom an agent answers, as those say who think of one; staff is told of customers and guests.
_USERS = {
    "en": "user users human humans",
    "de": "nutzer nutzern nutzerin benutzer benutzern anwender anwendern",
    "fr": "utilisateur utilisateurs utilisatrice l'utilisateur",
    "es": "usuario usuarios usuaria",
    "it": "utente utenti all'utente l'utente",
    "pt": "usuário usuários utilizador utilizadores",
    "nl": "gebruiker gebruikers",
    "pl": "użytkownik*",
    "ru": "пользовател*",
    "uk": "користувач*",
    "cs": "uživatel*",
    "sk": "používateľ*",
    "ro": "utilizator*",
    "hu": "felhasználó*",
    "sv": "användare*",
    "da": "bruger*",
    "no": "bruker*",
    "fi": "käyttäjä*",
    "tr": "kullanıcı*",
    "el": "χρήστ*",
    "he": "למשתמש* משתמש*",
    "ar": "المستخدم* للمستخدم*",
    "fa": "کاربر*",
    "hi": "उपयोगकर्ता* यूज़र*",
    "vi": "người\\sdùng",
    "id": "pengguna*",
}
_USERS_UNSPACED = "用户|用戶|利用者|ユーザー|사용자|이용자|ผู้ใช้|ব্যবহারকারী"
# What an agent gives.
_ANSWERS = {
    "en": "answer answers reply replies response responses assessment assessments verdict",
    "de": "antwort antworten bewertung ausgabe",
    "fr": "réponse réponses",
    "es": "respuesta respuestas mensaje",
    "it": "risposta risposte messaggio",
    "pt": "resposta respostas mensagem",
    "nl": "antwoord antwoorden reactie*",
    "pl": "odpowied*",
    "ru": "ответ ответа ответе ответы ответов",
    "uk": "відповід*",
    "cs": "odpověď* odpovědi",
    "sk": "odpoveď* odpovede",
    "ro": "răspuns*",
    "hu": "válasz*",
    "sv": "svar svaret svaren",
    "da": "svar svaret",
    "no": "svar svaret",
    "fi": "vastaus* vastauk*",
    "tr": "cevab* cevap yanıt*",
    "el": "απάντηση* απαντήσεις",
    "he": "תשובה* התשובה תשובתך",
    "ar": "إجابت* الإجابة الرد ردك",
    "fa": "پاسخ*",
    "hi": "उत्तर* जवाब*",
    "vi": "câu\\strả\\slời",
    "id": "jawaban*",
}
_ANSWERS_UNSPACED = "回答|回复|回覆|答复|返信|応答|답변|응답|คำตอบ|উত্তর"
# What is made of a text, and what makes it.
_SUMMING = "summary summaries zusammenfassung zusammenfassungen résumé résumés synthèse resumen resúmenes riassunto riassunti riepilogo resumo resumos samenvatting* podsumowani* streszczeni* пересказ* резюме сводк* підсум* переказ* shrnut* souhrn* zhrnut* súhrn* rezumat* összefoglaló* összegzés* sammanfattning* resumé* sammenfatning* sammendrag* tiivistelm* yhteenve* özet* σύνοψη* περίληψη* סיכום הסיכום ملخص* الملخص خلاصه* सारांश* bản\\stóm\\stắt ringkasan* summaris* summariz* zusammenfass* résumer résumez résumant resumir resumas resuma riassum* streszcz* пересказ* sammanfatt*"
_SUMMING_UNSPACED = "摘要|总结|總結|要約|요약|สรุป|সারাংশ"
# What an agent is to drop: whoever speaks so speaks to one.
_OVERRIDES = {
    "en": "ignore disregard forget override",
    "de": "ignorier* vergiss missacht*",
    "fr": "ignore ignorez ignorer oublie oubliez",
    "es": "ignora* ignore ignoren olvida* olvide*",
    "it": "ignora* ignori dimentica*",
    "pt": "ignore ignora* esqueç*",
    "nl": "negeer* vergeet",
    "pl": "zignoruj* ignoruj* zapomnij*",
    "ru": "игнорируй* проигнорируй* забудь*",
    "uk": "ігноруй* проігноруй* забудь*",
    "cs": "ignoruj* zapomeň*",
    "sv": "ignorera* glöm*",
    "tr": "yoksay* görmezden unut*",
    "ar": "تجاهل*",
}
_OVERRIDES_UNSPACED = "忽略|无视|無視|무시"
_ORDERS = re2.compile(
    rb"(?i)instru|anweis|vorgab|consign|istruz|instruktion|instrukc|pokyn|prompt|\brules?\b|\babove\b"
    rb"|profile|talimat|bisher|vorherig|\boben\b|anterior|voorgaand|hierboven|poprzedni|polece"
    rb"|ovanst|yukar|"
    + "précéd|önceki|předchoz|инструкц|указани|предыдущ|прежн|інструкц|вказівк|попередн"
    "|تعليم|السابق|指令|指示|以上|之前|上記|지시|이전|위의".encode()
)
# People are assistants, too, and have some: "Dr Hahn's assistant", "shop assistants", "assistant manager".
_SOMEBODYS = re2.compile(
    rb"['\x92\x99]s assistant|s' assistant|assistants?(?:['\x92]s|\xe2\x80\x99s) |assistant (?:of|to|manag|direc|profes|coach|princip)"
    rb"|\b(?:shop|stores?|sales|teaching|research|dental|medical|health|nursing|care|legal|office|executive|administrative"
    rb"|personal|production|lab|laboratory|kitchen|veterinary|flight|classroom|physician|my|her|his) assistant|assistent\w* (?:von|van) "
)
# Names of fields that speak for an agent.
_KEY_WORDS = r"(?:assistant|bot|llm|ai|model)[_-][a-z_-]{0,20}(?:override|instruct|directive|must|to_say)[a-z_-]*"

_AI_BESIDE_CHARACTERS = r"[\x80-\xbf]ai(?:[^a-z]|$)|(?:^|[^a-z0-9_])ai[\xe3-\xed]"
_LETTERS = r"[a-z\x80-\xff]*"
# Quotes and marks of other scripts, which are no letters.
_MARK = r"\xc2[\xa0-\xbf]|\xe2[\x80-\x81][\x80-\xbf]|\xe3\x80[\x80-\xbf]|\xef\xbc[\x80-\x8f]"
_BEFORE = rf"(?:^|[^a-z0-9_\x80-\xff]|{_MARK})"
_AFTER = rf"(?:$|[^a-z0-9_\x80-\xff]|{_MARK})"
_LONGEST = 100_000  # characters of a text: orders beyond are not looked for
_MOST_ANCHORS = 60
_MOST_VERBS = 12
_NEAR = 60
_FAR = 200
_LONGEST_PASSAGE = 600
# What makes an order of "assistants … report": nothing does where they merely do so.
_MOOD = re2.compile(
    rb"[^a-z0-9_ ]|\b(?:must|should|shall|will|to|please|always|never|now|kindly|do|needs?|ought)\b"
)
# Whoever is told to do something has no article: "l'assistant indique" tells what it does.
_ARTICLE = re.compile(
    rb"(?:\b[ld]['\x92]|\xe2\x80\x99|\b(?:le|la|el|il|lo|o|a|der|die|das|de|het|un|une|una|uma?"
    rb"|ein|eine)\s+)$"
)
_STOP = re.compile(
    r"[.!?؟।]+[\"'»”’)\]]*(?=\s|$)|[。！？][」』”]*|\n|(?<=[^\s\\])\"\s*[,}\]]|-->|</"
)
_STARTS = re.compile(r"[.!?؟।]+[\"'»”’)\]]*\s|[。！？]|\n|[\"]\s*:\s*\"|<!--|>")
_MARKS_BEFORE = re.compile(rf"^(?:[\x00-\x2f\x3a-\x60\x7b-\x7f]|{_MARK})+".encode())
_MARKS_AFTER = re.compile(rf"(?:[\x00-\x2f\x3a-\x60\x7b-\x7f]|{_MARK})+$".encode())


_ENGLISH = frozenset(_SAYING["en"].encode().split())


def _words(table: dict[str, str]) -> str:
    """A pattern for words between others; of bytes, so that letters of all scripts are told."""
    known = {word for words in table.values() for word in words.split()}
    written = (
        re.escape(each).replace(r"\*", _LETTERS).replace(r"\\s", r"\s+").replace(r"\-", "-")
        for each in known
    )
    return f"{_BEFORE}(?:{'|'.join(sorted(written, reverse=True))}){_AFTER}"


def _pattern(*texts: str) -> "re2._Regexp[bytes]":
    """A pattern for lower-case bytes."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = 32 << 20
    return re2.compile("|".join(texts).encode(), options)


_MACHINE = _words(_MACHINES), _MACHINES_UNSPACED, _AI_BESIDE_CHARACTERS
_USER = _words(_USERS), _USERS_UNSPACED
_ANSWER = _words(_ANSWERS), _ANSWERS_UNSPACED
_SUM = _words({"": _SUMMING}), _SUMMING_UNSPACED
_OVERRIDE = _words(_OVERRIDES), _OVERRIDES_UNSPACED
_NEWS = (
    r"\b(?:new|updated|real|actual) instructions?\b"
    r"|\binstructions? (?:have|has|are|were) (?:been )?(?:now )?(?:changed|updated|replaced)"
)
# People are told from when on a rule holds, too, but not that nothing else is to be said.
_FOR_GOOD = r"\bfrom now on\b|\bfor the rest of (?:this|the) (?:conversation|chat|session)\b"
_HENCEFORTH = _pattern(_FOR_GOOD)
_NOTHING_ELSE = _pattern(r"\b(?:only|nothing but|exclusively)\b")
_NEW_ORDERS = _pattern(_NEWS)
_ANCHOR = _pattern(*_MACHINE, *_USER, *_ANSWER, *_SUM, *_OVERRIDE, _KEY_WORDS, _NEWS, _FOR_GOOD)
_KEY = _pattern(_KEY_WORDS)
MACHINE, REPLY = _pattern(*_MACHINE), _pattern(*_ANSWER)
_USER_WORDS, _GIVING = _pattern(*_USER), _pattern(*_ANSWER, *_SUM)
OVERRIDE = _pattern(*_OVERRIDE)
SAYS = _pattern(_words(_SAYING), _SAYING_UNSPACED)


class SpokenOrder(msgspec.Struct, frozen=True):
    """A passage that may tell what to say, and how it does from its verb on.

    It is `sure` to be meant for a machine, or it may be a rule for people who answer users.
    """

    text: str
    order: str
    sure: bool


def spoken_orders(text: str) -> tuple[SpokenOrder, ...]:
    """The passages of a text that may tell its reader what to say."""
    raw = text[:_LONGEST].lower().replace("\\n", " \n").encode("utf-8", "replace")
    if not occurs_in(_ANCHOR, raw):
        return ()
    return orders_near(raw, _anchors(raw))


class OrderAnchor(msgspec.Struct, frozen=True):
    """A place beside which an order may stand, and how far before it and after it.

    It is `sure` to be for a machine; one that names a machine may tell what that does.
    """

    start: int
    end: int
    before: int
    after: int
    sure: bool = True
    names: bool = False


def orders_near(raw: bytes, anchors: Iterable[OrderAnchor]) -> tuple[SpokenOrder, ...]:
    """The passages with an anchor and a verb of saying so far before it, or after it."""
    found: dict[tuple[int, int, int], bool] = {}
    for each in islice(anchors, _MOST_ANCHORS):
        start, end = _bare(raw, each.start, each.end)
        later = _verbs(raw, end, end + each.after)
        earlier = reversed([*_verbs(raw, max(0, start - each.before), start)])
        for verb in chain(later, earlier) if each.sure else chain(earlier, later):
            if each.names and _merely_does(raw, start, end, *verb):
                continue
            place = _sentence_at(raw, *verb)
            # Machines, users and answers are spoken of in the same sentence.
            if (each.sure and not each.names) or (place[0] <= start and end <= place[2]):
                found[place] = found.get(place, False) or each.sure
                break
    for span in islice(spans_in(_KEY, raw), _MOST_ANCHORS):
        found[_sentence_at(raw, *span)] = True
    return tuple(
        SpokenOrder(
            raw[begin:end].decode("utf-8", "ignore"), raw[verb:end].decode("utf-8", "ignore"), sure
        )
        for (begin, verb, end), sure in found.items()
    )


def _verbs(raw: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    for span in islice(spans_in(SAYS, raw[start:end]), _MOST_VERBS):
        yield _bare(raw, start + span[0], start + span[1])


def _merely_does(raw: bytes, begin: int, end: int, start: int, stop: int) -> bool:
    """Whether a verb tells what somebody does: "models report", "l'assistant indique"."""
    if start < end:
        return False
    if raw[start:stop] in _ENGLISH:
        return not occurs_in(_MOOD, raw[end:start])
    is_subject = _ARTICLE.search(raw, max(0, begin - 6), begin) is not None
    return is_subject and not raw[end:start].strip()


def _bare(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """A word without the marks around it that a pattern took in."""
    word = raw[start:end]
    bare = _MARKS_BEFORE.sub(b"", word)
    return end - len(bare), end - len(bare) + len(_MARKS_AFTER.sub(b"", bare))


def _anchors(raw: bytes) -> Iterator[OrderAnchor]:
    for start, end in spans_in(MACHINE, raw):
        if not occurs_in(_SOMEBODYS, raw[max(0, start - 16) : end + 8]):
            yield OrderAnchor(start, end, _NEAR, _FAR, names=True)
    for start, end in spans_in(OVERRIDE, raw):
        if occurs_in(_ORDERS, raw[start : end + 2 * _NEAR]):
            yield OrderAnchor(start, end, 0, _FAR)
    for start, end in spans_in(_NEW_ORDERS, raw):
        yield OrderAnchor(start, end, 0, _FAR)
    for start, end in spans_in(_HENCEFORTH, raw):
        if occurs_in(_NOTHING_ELSE, raw[end : end + _NEAR]):
            yield OrderAnchor(start, end, 0, _NEAR)
    for start, end in spans_in(_USER_WORDS, raw):
        yield OrderAnchor(start, end, _NEAR, _FAR, sure=False)
    for start, end in spans_in(_GIVING, raw):
        yield OrderAnchor(start, end, _NEAR, _NEAR, sure=False)


def _sentence_at(raw: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Where the sentence around a verb begins, the verb, and its end.

    What it only announces belongs to it.
    """
    before = raw[max(0, start - _FAR) : start].decode("utf-8", "ignore")
    begin = start - len(before[_last_end(before) :].encode())
    rest = raw[end : end + _LONGEST_PASSAGE].decode("utf-8", "ignore")
    stop = _STOP.search(rest)
    at = stop.end() if stop else len(rest)
    if stop and rest[: stop.start()].rstrip().endswith((":", "：", "say", "reply")):
        following = _STOP.search(rest, at)
        at = following.end() if following else len(rest)
    return begin, start, end + len(rest[:at].encode())


def _last_end(text: str) -> int:
    return max((found.end() for found in _STARTS.finditer(text)), default=0)
