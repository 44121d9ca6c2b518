"""Words of other languages that make a sentence an order, with the English words for them.

One table for each language, from an English word to the forms that stand for it. Words that
English has, too, are not in it.
"""

# ruff: noqa: E501, RUF001 (a table is read by its lines; letters and marks of other scripts)
# fmt: off

# An order to forget other orders, as a whole: languages put its parts in different places.
OVERRIDES = {
    "de": r"(?:ignorier|vergiss|vergesst|vergessen|missacht|beacht)\w*[^.!?\n]{0,40}"
    r"(?:anweisung|instruktion|befehl|vorgabe|regel)\w*(?: nicht(?: mehr)?)?",
    "es": r"(?:ignor|olvid|haz caso omiso|desestim)\w*[^.!?\n]{0,40}"
    r"(?:instruccion|orden|órden|indicacion|regla)\w*(?: anterior\w*| previa\w*)?",
    "fr": r"(?:ignor|oubli|ne tiens? pas compte|ne tenez pas compte)\w*[^.!?\n]{0,40}"
    r"(?:instruction|consigne|ordre|règle)\w*(?: précédent\w*)?",
    "it": r"(?:ignor|dimentic)\w*[^.!?\n]{0,40}(?:istruzion|ordin|regol)\w*"
    r"(?: precedent\w*)?",
    "pt": r"(?:ignor|esqueç|desconsider)\w*[^.!?\n]{0,40}(?:instruç|ordens|regras)\w*"
    r"(?: anterior\w*)?",
    "nl": r"(?:negeer|vergeet)\w*[^.!?\n]{0,40}(?:instructie|opdracht|regel)\w*",
    "pl": r"(?:zignoruj|ignoruj|zapomnij|pomiń)\w*[^.!?\n]{0,40}"
    r"(?:instrukcj|poleceni|zasad)\w*",
    "tr": r"(?:önceki|tüm|yukarıdaki|bütün)[^.!?\n]{0,30}"
    r"(?:talimat|komut|yönerge)\w*[^.!?\n]{0,12}"
    r"(?:yok say|görmezden|unut|dikkate alma|göz ardı)\w*",
    "ru": r"(?:игнорир|проигнорир|забуд|не обращай)\w*[^.!?\n]{0,40}"
    r"(?:инструкц|указан|команд|правил)\w*",
    "zh": r"(?:忽略|无视|無視|忘记|忘記|不要理会)[^。！？\n]{0,14}(?:指令|指示|说明|說明|要求|命令|提示)",
    "ja": r"(?:これまで|以前|前|上記|今まで|すべて|全て|元)[^。！？\n]{0,12}(?:指示|命令|指令|ルール)[^。！？\n]{0,10}"
    r"(?:無視|忘れ|従わ)[ぁ-ん]{0,6}",
    "ko": r"(?:이전|앞선|기존|위의|모든)[^.!?\n]{0,14}(?:지시|명령|지침)[^.!?\n]{0,10}(?:무시|잊)[가-힣]{0,4}",
    "ar": r"(?:تجاهل|انس|أهمل)[^.!؟\n]{0,30}(?:تعليمات|أوامر|التوجيهات|القواعد)\S*",
}
# Verbs as an order gives them, and words that urge, bind, or speak of orders and tasks.
WORDS: dict[str, dict[str, str]] = {
    "de": {
        "send": "sende senden sendet schick schicke schicken verschicke verschicken"
        " übermittle übermitteln maile mailen",
        "forward": "leite weiterleiten leiten",
        "transfer": "überweise überweisen überweist transferiere transferieren",
        "pay": "zahle zahlen bezahle bezahlen begleiche",
        "delete": "lösche löschen löscht entferne entfernen vernichte",
        "create": "erstelle erstellen erzeuge lege anlegen eröffne eröffnen",
        "add": "füge hinzufügen ergänze ergänzen",
        "book": "buche buchen reserviere reservieren bestelle bestellen",
        "buy": "kaufe kaufen", "cancel": "storniere stornieren kündige kündigen",
        "change": "ändere ändern aktualisiere aktualisieren", "share": "teile teilen",
        "invite": "lade einladen", "write": "schreibe schreiben",
        "grant": "gewähre gewähren erteile erteilen", "reset": "zurücksetzen",
        "run": "starte starten", "execute": "führe ausführen",
        "use": "nutze verwende verwenden benutze", "open": "öffne öffnen besuche besuchen",
        "download": "herunterladen", "upload": "hochladen lade",
        "publish": "veröffentliche veröffentlichen", "reply": "antworte antworten",
        "install": "installiere installieren", "tell": "mitteilen", "report": "melde",
        "task": "aufgabe aufgaben auftrag", "instructions": "anweisung anweisungen",
        "your": "ihre ihrer ihren deine deiner deinen", "and": "und",
        "then": "dann danach anschließend",
    },
    "es": {
        "send": "envía envia envíe envie enviar enviad manda mande mandar remite"
        " envíame envíalo",
        "forward": "reenvía reenvíe reenviar", "transfer": "transfiere transfiera transferir",
        "pay": "paga pague pagar abona abone",
        "delete": "borra borre borrar elimina elimine eliminar",
        "remove": "quita quite quitar", "create": "crea cree crear",
        "add": "añade añada añadir agrega agregue agregar", "book": "reserva reservar",
        "buy": "compra compre comprar", "cancel": "cancela cancele cancelar anula anule",
        "change": "cambia cambie cambiar modifica modifique actualiza actualice actualizar",
        "share": "comparte comparta compartir", "invite": "invita invitar",
        "write": "escribe escriba escribir", "grant": "concede conceda otorga otorgue",
        "reset": "restablece restablezca restablecer", "run": "ejecuta ejecute ejecutar",
        "use": "utiliza utilice usar utilizar", "open": "abre abra visita visite",
        "download": "descarga descargue descargar", "upload": "sube suba subir",
        "publish": "publica publique publicar", "reply": "responde responda contesta conteste",
        "install": "instala instale instalar", "tell": "dile diga",
        "do": "haz haga realiza realice", "you continue": "continúe continúa prosiga",
        "task": "tarea tareas", "instructions": "instrucción instrucciones",
        "your": "su sus tu tus", "and": "y", "then": "luego después",
        "you must now": "debes debe",
    },
    "fr": {
        "send": "envoie envoyez envoyer expédie expédiez",
        "forward": "transfère transférez transférer réexpédiez",
        "transfer": "vire virez virer", "pay": "paie paye payez payer",
        "delete": "supprime supprimez supprimer efface effacez effacer",
        "remove": "enlève enlevez retire retirez", "create": "crée créez créer",
        "add": "ajoute ajoutez ajouter", "book": "réserve réservez réserver",
        "buy": "achète achetez acheter", "cancel": "annule annulez annuler",
        "change": "changez changer modifie modifiez modifier",
        "share": "partage partagez partager", "invite": "invitez inviter",
        "write": "écris écrivez écrire", "grant": "accorde accordez",
        "reset": "réinitialise réinitialisez", "run": "lance lancez exécute exécutez",
        "use": "utilise utilisez utiliser", "open": "ouvre ouvrez visite visitez",
        "download": "télécharge téléchargez", "upload": "téléverse téléversez",
        "publish": "publie publiez", "reply": "réponds répondez",
        "install": "installe installez", "tell": "dis dites", "do": "fais faites faire",
        "you continue": "reprenez reprends continuez", "update": "mettez",
        "task": "tâche tâches", "instructions": "consigne consignes",
        "your": "votre vos ton tes", "and": "et", "then": "puis ensuite",
        "you must now": "devez dois", "please kindly": "veuillez",
    },
    "it": {
        "send": "invia inviare manda spedisci", "forward": "inoltra inoltrate inoltrare",
        "transfer": "trasferisci trasferite trasferire bonifica", "pay": "paga pagate pagare",
        "delete": "elimina eliminare cancella cancellate cancellare", "remove": "rimuovi",
        "create": "crea creare", "add": "aggiungi aggiungete", "book": "prenota prenotate",
        "buy": "compra comprate acquista", "cancel": "annulla",
        "change": "cambia modifica aggiorna", "share": "condividi condividete",
        "invite": "invita invitate", "write": "scrivi scrivete",
        "run": "esegui eseguite avvia", "use": "utilizza", "open": "apri visita",
        "download": "scarica", "upload": "carica", "publish": "pubblica", "reply": "rispondi",
        "install": "installa", "do": "fai", "task": "compito",
        "instructions": "istruzione istruzioni", "your": "tuo tua vostro", "then": "quindi",
        "you must now": "devi dovete",
    },
    "pt": {
        "send": "envie envia enviar mande", "forward": "encaminhe encaminha encaminhar",
        "transfer": "transfira transfere transferir", "pay": "pague paga pagar",
        "delete": "apague apaga apagar exclua exclui excluir elimine",
        "remove": "remova remove", "create": "crie cria criar", "add": "adicione adiciona",
        "book": "reserva", "buy": "compre compra", "cancel": "cancele cancela",
        "change": "altere altera mude atualize", "share": "compartilhe compartilha partilhe",
        "invite": "convide", "write": "escreva", "run": "executa", "use": "utiliza",
        "open": "abra visite", "download": "baixe", "upload": "envie", "publish": "publique",
        "reply": "responda", "install": "instale", "do": "faça", "task": "tarefa tarefas",
        "instructions": "instrução instruções", "your": "seu sua teu tua", "then": "depois",
        "you must now": "deve deves",
    },
    "nl": {
        "send": "stuur verstuur zend", "transfer": "maak", "pay": "betaal",
        "delete": "verwijder wis", "create": "creëer", "add": "voeg", "book": "boek reserveer",
        "buy": "koop", "cancel": "annuleer", "change": "wijzig verander", "share": "deel",
        "write": "schrijf", "run": "voer", "use": "gebruik", "reply": "antwoord",
        "task": "taak", "your": "jouw uw", "instructions": "instructie instructies",
        "then": "daarna", "you must now": "moet",
        "please kindly": "alsjeblieft alstublieft gelieve",
    },
    "pl": {
        "send": "wyślij prześlij wyslij", "forward": "przekaż", "transfer": "przelej",
        "pay": "zapłać opłać", "delete": "usuń skasuj", "create": "utwórz stwórz",
        "add": "dodaj", "book": "zarezerwuj", "buy": "kup", "cancel": "anuluj",
        "change": "zmień zaktualizuj", "share": "udostępnij", "invite": "zaproś",
        "write": "napisz", "run": "uruchom wykonaj", "use": "użyj", "open": "otwórz odwiedź",
        "download": "pobierz", "publish": "opublikuj", "reply": "odpowiedz",
        "install": "zainstaluj", "task": "zadanie zadania", "your": "twoje twój",
        "instructions": "instrukcje instrukcja polecenia", "then": "następnie potem",
        "you must now": "musisz", "please kindly": "proszę",
    },
    "tr": {
        "please kindly send": "gönder gönderin yolla", "please kindly forward": "ilet iletin",
        "please kindly transfer": "aktar aktarın", "please kindly pay": "öde ödeyin",
        "please kindly delete": "sil silin", "please kindly create": "oluştur oluşturun",
        "please kindly add": "ekle ekleyin", "please kindly cancel": "iptal",
        "task": "görev görevi görevin", "please kindly change": "değiştir değiştirin",
        "please kindly share": "paylaş paylaşın", "please kindly": "lütfen",
        "you must now": "zorundasın zorundasınız", "your": "senin sizin",
        "instructions": "talimat talimatlar", "then": "sonra",
    },
    "ru": {
        "send": "отправь отправьте отправить пошли пошлите вышли вышлите",
        "forward": "перешли перешлите переслать",
        "transfer": "переведи переведите перевести перечисли перечислите",
        "pay": "оплати оплатите заплати заплатите",
        "delete": "удали удалите удалить сотри сотрите", "create": "создай создайте создать",
        "add": "добавь добавьте добавить", "book": "забронируй забронируйте закажи закажите",
        "buy": "купи купите", "cancel": "отмени отмените",
        "change": "измени измените поменяй обнови обновите", "share": "поделись поделитесь",
        "invite": "пригласи пригласите", "write": "напиши напишите",
        "grant": "предоставь предоставьте дай дайте", "reset": "сбрось сбросьте",
        "run": "запусти запустите", "execute": "выполни выполните",
        "use": "используй используйте", "open": "открой откройте посети посетите",
        "download": "скачай скачайте", "upload": "загрузи загрузите",
        "publish": "опубликуй опубликуйте", "reply": "ответь ответьте",
        "install": "установи установите", "tell": "скажи скажите сообщи",
        "do": "сделай сделайте", "you continue": "продолжай продолжайте",
        "task": "задача задачу задание задания",
        "instructions": "инструкция инструкции указания", "your": "ваш ваши вашу твой твою",
        "and": "и", "then": "затем потом",
        "you must now": "должен должны нужно необходимо следует обязан",
        "please kindly": "пожалуйста прошу",
    },
    "ar": {
        "send": "أرسل ارسل أرسلي", "forward": "وجّه", "transfer": "حوّل حول", "pay": "ادفع",
        "delete": "احذف امسح", "create": "أنشئ", "add": "أضف", "book": "احجز",
        "cancel": "ألغ ألغِ", "change": "غيّر غير", "share": "شارك", "write": "اكتب",
        "run": "شغّل نفّذ", "use": "استخدم", "task": "المهمة مهمة",
        "instructions": "تعليمات التعليمات", "then": "ثم", "you must now": "يجب عليك",
        "please kindly": "يرجى رجاء",
    },
}
# In scripts without spaces between words, or with endings on them, pieces of text are replaced.
PIECES: dict[str, dict[str, str]] = {
    "zh": {
        "please kindly": "请 請 麻烦您 麻煩您 麻烦 务必 務必", "you must now": "必须 必須 需要你 需要您 你应该 您应该",
        "then": "然后 然後 接着 并且 并 再", "": "把 将 將", "send": "发送 發送 发到 发给 發給 寄给 寄到 发邮件",
        "forward": "转发 轉發", "transfer": "转账 轉帳 汇款 匯款 转给 转到", "pay": "支付 付款",
        "delete": "删除 刪除 删掉", "remove": "移除", "create": "创建 創建 新建 建立", "add": "添加 加入 新增",
        "book": "预订 預訂 预定", "buy": "购买 購買", "cancel": "取消", "change": "修改 更改 更换 改为 更新",
        "share": "分享 共享", "invite": "邀请 邀請", "use": "使用 调用 調用", "run": "运行 執行 执行",
        "open": "打开 打開 访问 訪問", "download": "下载 下載", "upload": "上传 上傳", "publish": "发布 發布",
        "reply": "回复 回覆", "write": "写信", "grant": "授予", "reset": "重置", "install": "安装 安裝",
        "tell": "告诉 告訴", "you continue": "继续 繼續", "task": "任务 任務", "instructions": "指令 指示",
        "your": "您的 你的", "you": "您 你",
    },
    "ja": {
        ", please kindly send": "送信して 送って お送り 送信せよ", ", please kindly forward": "転送して",
        ", please kindly transfer": "送金して 振り込んで 振込して", ", please kindly pay": "支払って 払って",
        ", please kindly delete": "削除して 消して", ", please kindly create": "作成して 作って",
        ", please kindly add": "追加して", ", please kindly book": "予約して",
        ", please kindly buy": "購入して 買って", ", please kindly cancel": "キャンセルして 取り消して",
        ", please kindly change": "変更して 更新して", ", please kindly share": "共有して",
        ", please kindly invite": "招待して", ", please kindly use": "使用して 使って",
        ", please kindly run": "実行して", ", please kindly open": "開いて アクセスして 訪問して",
        ", please kindly publish": "公開して 投稿して", ", please kindly reply": "返信して",
        ", please kindly write": "書いて", ", please kindly install": "インストールして",
        ", please kindly tell": "伝えて 知らせて", "please kindly": "ください 下さい", "task": "タスク 作業",
        "instructions": "指示 命令", "your": "あなたの", "you": "あなた",
        "you must now": "しなければなりません 必要があります", "then": "その後 次に",
    },
    "ko": {
        ", please kindly send": "보내 전송하", ", please kindly forward": "전달하",
        ", please kindly transfer": "송금하 이체하", ", please kindly pay": "지불하 결제하",
        ", please kindly delete": "삭제하 삭제해 지워", ", please kindly create": "생성하 만들어",
        ", please kindly add": "추가하 추가해", ", please kindly book": "예약하 예약해",
        ", please kindly buy": "구매하 구매해", ", please kindly cancel": "취소하 취소해",
        ", please kindly change": "변경하 변경해 바꿔", ", please kindly share": "공유하 공유해",
        ", please kindly run": "실행하 실행해", ", please kindly use": "사용하", "task": "작업",
        ", please kindly reply": "답장하", "instructions": "지시 명령", "your": "당신의",
        "please kindly": "주세요 십시오 하세요", "you must now": "해야 합니다 해야 한다",
    },
}
# Things keep their own name beside the English one, since they may be part of a value.
THINGS = {
    "file": "datei dateien archivo fichero fichier dossier arquivo ficheiro bestand"
    " plik dosya файл файлы файла ملف",
    "account": "konto cuenta compte conto conta rekening hesap счёт счет حساب",
    "email": "correo courriel posta письмо почту письма",
    "message": "nachricht mensaje mensagem messaggio bericht wiadomość mesaj сообщение"
    " رسالة",
    "password": "passwort kennwort contraseña senha wachtwoord hasło şifre пароль",
    "money": "geld dinero argent soldi dinheiro pieniądze деньги",
    "event": "termin evento événement wydarzenie etkinlik событие встречу",
    "calendar": "kalender calendario calendrier календарь",
    "user": "benutzer usuario utilisateur utente usuário gebruiker użytkownik"
    " kullanıcı пользователя пользователь",
    "channel": "kanal canal canale канал",
    "order": "bestellung pedido commande ordine zamówienie sipariş заказ",
    "ticket": "vorgang billete тикет заявку",
    "reservation": "reservierung réservation prenotazione reservering rezerwacja"
    " rezervasyon бронь",
    "payment": "zahlung pago paiement pagamento betaling płatność ödeme платёж платеж",
    "invoice": "rechnung factura facture fattura fatura factuur faktura счёт-фактура",
    "contact": "kontakt contacto контакт",
    "document": "dokument documento documento документ", "database": "datenbank",
    "address": "adresse dirección indirizzo endereço adres adresi адрес",
}
THING_PIECES = {
    "file": "文件 檔案 ファイル 파일", "account": "账户 帳戶 账号 アカウント 口座 계좌 계정",
    "email": "邮件 郵件 メール 이메일 메일", "message": "消息 訊息 メッセージ 메시지",
    "password": "密码 密碼 パスワード 비밀번호", "money": "钱 錢 お金 돈", "event": "日程 活动 予定 イベント 일정",
    "calendar": "日历 行事曆 カレンダー 달력", "user": "用户 用戶 ユーザー 사용자", "channel": "频道 頻道 チャンネル 채널",
    "order": "订单 訂單 注文 주문", "reservation": "预约 予約 예약", "payment": "付款单 支払い 결제",
    "invoice": "发票 發票 請求書 청구서", "contact": "联系人 連絡先 연락처", "document": "文档 文檔 文書 書類 문서",
    "address": "地址 住所 주소",
}
# Phrases of several words.
PHRASES = {
    "please kindly": ("por favor", "per favore", "s'il vous plaît", "s'il te plaît", "merci de", "من فضلك",
                      "bitte"),
    "you must now": ("müssen sie", "musst du"), "password mot de passe": ("mot de passe",),
    "delete": ("yok et",),
}
MARKS = {
    "。": ".\n\n", "！": "!\n\n", "？": "?\n\n", "؟": "?\n\n", "．": ".\n\n", "，": ", ", "、": ", ",
    "：": ": ", "；": "; ", "（": " (", "）": ") ", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
    "「": '"', "」": '"', "『": '"', "』": '"', "《": '"', "》": '"', "¡": "", "¿": "", "’": "'",
}
