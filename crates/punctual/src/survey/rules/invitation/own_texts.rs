//! Our own words for invitations and reminders, in one table. They are sent where a tenant has no template.
//!
//! The place of a language is the version that deliveries keep: a language is added at the end, and words
//! that change are added as a language of their own, because deliveries that wait have the old ones.

/// The words of one language; the texts have `{{surveyTitle}}` and `{{surveyUrl}}` in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnWords {
    /// The language, as [`crate::base::locale::text_language`] has it.
    pub(super) language: &'static str,
    /// The subject and the text of an invitation.
    pub(super) invitation: [&'static str; 2],
    /// The subject and the text of a reminder.
    pub(super) reminder: [&'static str; 2],
}

macro_rules! words {
    ($language:literal, $asks:literal, $please:literal, $reminds:literal, $still:literal) => {
        OwnWords {
            language: $language,
            invitation: [concat!($asks, ": {{surveyTitle}}"), $please],
            reminder: [concat!($reminds, ": {{surveyTitle}}"), $still],
        }
    };
}

/// Every language, English first.
pub(super) const ALL: [OwnWords; 43] = [
    words!(
        "en",
        "Your opinion, please",
        "Please take a moment for our survey \"{{surveyTitle}}\": {{surveyUrl}}",
        "A reminder",
        "A friendly reminder: your answer to \"{{surveyTitle}}\" would still help us: {{surveyUrl}}"
    ),
    words!(
        "ar",
        "رأيك يهمنا",
        "رأيك يهمنا. يرجى الإجابة عن \"{{surveyTitle}}\": {{surveyUrl}}",
        "تذكير",
        "تذكير ودّي: ما زال رأيك في \"{{surveyTitle}}\" يهمنا: {{surveyUrl}}"
    ),
    words!(
        "de",
        "Ihre Meinung bitte",
        "Bitte nehmen Sie sich einen Moment für unsere Umfrage \"{{surveyTitle}}\": {{surveyUrl}}",
        "Erinnerung",
        "Eine freundliche Erinnerung: Ihre Antwort auf \"{{surveyTitle}}\" hilft uns weiterhin: {{surveyUrl}}"
    ),
    words!(
        "fr",
        "Votre avis nous intéresse",
        "Merci de prendre un instant pour notre enquête \"{{surveyTitle}}\" : {{surveyUrl}}",
        "Rappel",
        "Petit rappel : votre réponse à \"{{surveyTitle}}\" nous serait toujours utile : {{surveyUrl}}"
    ),
    words!(
        "es",
        "Su opinión, por favor",
        "Por favor, dedique un momento a nuestra encuesta \"{{surveyTitle}}\": {{surveyUrl}}",
        "Recordatorio",
        "Un recordatorio: su respuesta a \"{{surveyTitle}}\" todavía nos ayudaría: {{surveyUrl}}"
    ),
    words!(
        "pt",
        "A sua opinião, por favor",
        "Por favor, dedique um momento à nossa pesquisa \"{{surveyTitle}}\": {{surveyUrl}}",
        "Lembrete",
        "Um lembrete: a sua resposta a \"{{surveyTitle}}\" ainda nos ajudaria: {{surveyUrl}}"
    ),
    words!(
        "it",
        "La sua opinione, per favore",
        "La preghiamo di dedicare un momento al nostro sondaggio \"{{surveyTitle}}\": {{surveyUrl}}",
        "Promemoria",
        "Un promemoria: la sua risposta a \"{{surveyTitle}}\" ci sarebbe ancora utile: {{surveyUrl}}"
    ),
    words!(
        "nl",
        "Graag uw mening",
        "Neem alstublieft even de tijd voor onze enquête \"{{surveyTitle}}\": {{surveyUrl}}",
        "Herinnering",
        "Een vriendelijke herinnering: uw antwoord op \"{{surveyTitle}}\" helpt ons nog steeds: {{surveyUrl}}"
    ),
    words!(
        "tr",
        "Görüşünüz bizim için önemli",
        "Lütfen \"{{surveyTitle}}\" anketimize bir dakikanızı ayırın: {{surveyUrl}}",
        "Hatırlatma",
        "Küçük bir hatırlatma: \"{{surveyTitle}}\" anketine vereceğiniz yanıt bize hâlâ yardımcı olur: \
         {{surveyUrl}}"
    ),
    words!(
        "ru",
        "Нам важно ваше мнение",
        "Пожалуйста, уделите минуту нашему опросу \"{{surveyTitle}}\": {{surveyUrl}}",
        "Напоминание",
        "Напоминаем: ваш ответ на опрос \"{{surveyTitle}}\" нам всё ещё важен: {{surveyUrl}}"
    ),
    words!(
        "uk",
        "Нам важлива ваша думка",
        "Будь ласка, приділіть хвилину нашому опитуванню \"{{surveyTitle}}\": {{surveyUrl}}",
        "Нагадування",
        "Нагадуємо: ваша відповідь на опитування \"{{surveyTitle}}\" нам досі важлива: {{surveyUrl}}"
    ),
    words!(
        "pl",
        "Prosimy o opinię",
        "Prosimy o chwilę uwagi i odpowiedź na naszą ankietę \"{{surveyTitle}}\": {{surveyUrl}}",
        "Przypomnienie",
        "Przypominamy: odpowiedź na ankietę \"{{surveyTitle}}\" nadal nam pomoże: {{surveyUrl}}"
    ),
    words!(
        "fa",
        "نظر شما برای ما مهم است",
        "لطفاً چند لحظه برای نظرسنجی \"{{surveyTitle}}\" وقت بگذارید: {{surveyUrl}}",
        "یادآوری",
        "یادآوری دوستانه: پاسخ شما به \"{{surveyTitle}}\" هنوز به ما کمک می‌کند: {{surveyUrl}}"
    ),
    words!(
        "ur",
        "آپ کی رائے ہمارے لیے اہم ہے",
        "براہِ کرم ہمارے سروے \"{{surveyTitle}}\" کے لیے ایک لمحہ نکالیں: {{surveyUrl}}",
        "یاد دہانی",
        "ایک یاد دہانی: \"{{surveyTitle}}\" پر آپ کا جواب اب بھی ہمارے لیے مددگار ہوگا: {{surveyUrl}}"
    ),
    words!(
        "hi",
        "आपकी राय हमारे लिए महत्वपूर्ण है",
        "कृपया हमारे सर्वेक्षण \"{{surveyTitle}}\" के लिए एक पल निकालें: {{surveyUrl}}",
        "स्मरण",
        "एक विनम्र स्मरण: \"{{surveyTitle}}\" पर आपका उत्तर अब भी हमारी मदद करेगा: {{surveyUrl}}"
    ),
    words!(
        "bn",
        "আপনার মতামত আমাদের কাছে গুরুত্বপূর্ণ",
        "অনুগ্রহ করে আমাদের জরিপ \"{{surveyTitle}}\"-এর জন্য একটু সময় দিন: {{surveyUrl}}",
        "অনুস্মারক",
        "একটি অনুস্মারক: \"{{surveyTitle}}\"-এ আপনার উত্তর এখনও আমাদের সাহায্য করবে: {{surveyUrl}}"
    ),
    words!(
        "id",
        "Mohon pendapat Anda",
        "Mohon luangkan waktu sejenak untuk survei kami \"{{surveyTitle}}\": {{surveyUrl}}",
        "Pengingat",
        "Sekadar mengingatkan: jawaban Anda untuk \"{{surveyTitle}}\" masih akan membantu kami: {{surveyUrl}}"
    ),
    words!(
        "ja",
        "ご意見をお聞かせください",
        "アンケート「{{surveyTitle}}」へのご協力をお願いいたします: {{surveyUrl}}",
        "ご確認のお願い",
        "アンケート「{{surveyTitle}}」へのご回答を引き続きお待ちしております: {{surveyUrl}}"
    ),
    words!(
        "ko",
        "고객님의 의견을 들려주세요",
        "잠시 시간을 내어 설문조사 \"{{surveyTitle}}\"에 참여해 주세요: {{surveyUrl}}",
        "알림",
        "다시 한번 안내드립니다. 설문조사 \"{{surveyTitle}}\"에 대한 답변을 기다리고 있습니다: {{surveyUrl}}"
    ),
    words!(
        "zh",
        "期待您的意见",
        "请抽空填写我们的问卷“{{surveyTitle}}”：{{surveyUrl}}",
        "提醒",
        "温馨提醒：我们仍期待您对“{{surveyTitle}}”的回答：{{surveyUrl}}"
    ),
    words!(
        "zh-Hant",
        "期待您的意見",
        "請抽空填寫我們的問卷「{{surveyTitle}}」：{{surveyUrl}}",
        "提醒",
        "溫馨提醒：我們仍期待您對「{{surveyTitle}}」的回答：{{surveyUrl}}"
    ),
    words!(
        "he",
        "דעתך חשובה לנו",
        "נשמח אם תקדישו רגע לסקר שלנו \"{{surveyTitle}}\": {{surveyUrl}}",
        "תזכורת",
        "תזכורת ידידותית: תשובתך לסקר \"{{surveyTitle}}\" עדיין תעזור לנו: {{surveyUrl}}"
    ),
    words!(
        "vi",
        "Rất mong ý kiến của bạn",
        "Vui lòng dành chút thời gian cho khảo sát \"{{surveyTitle}}\" của chúng tôi: {{surveyUrl}}",
        "Nhắc nhở",
        "Xin nhắc lại: câu trả lời của bạn cho \"{{surveyTitle}}\" vẫn rất hữu ích: {{surveyUrl}}"
    ),
    words!(
        "th",
        "ความคิดเห็นของคุณสำคัญสำหรับเรา",
        "โปรดสละเวลาสักครู่เพื่อตอบแบบสำรวจ \"{{surveyTitle}}\": {{surveyUrl}}",
        "แจ้งเตือน",
        "ขอแจ้งเตือนอีกครั้ง: คำตอบของคุณสำหรับ \"{{surveyTitle}}\" ยังคงเป็นประโยชน์ต่อเรา: {{surveyUrl}}"
    ),
    words!(
        "ckb",
        "ڕای ئێوە بۆ ئێمە گرنگە",
        "ڕای ئێوە بۆ ئێمە گرنگە. تکایە وەڵامی \"{{surveyTitle}}\" بدەنەوە: {{surveyUrl}}",
        "بیرخستنەوە",
        "بیرخستنەوە: هێشتا وەڵامی ئێوە بۆ \"{{surveyTitle}}\" یارمەتیمان دەدات: {{surveyUrl}}"
    ),
    words!(
        "sv",
        "Vi vill gärna veta vad du tycker",
        "Ta gärna en stund för vår enkät \"{{surveyTitle}}\": {{surveyUrl}}",
        "Påminnelse",
        "En vänlig påminnelse: ditt svar på \"{{surveyTitle}}\" hjälper oss fortfarande: {{surveyUrl}}"
    ),
    words!(
        "da",
        "Vi vil gerne høre din mening",
        "Brug gerne et øjeblik på vores undersøgelse \"{{surveyTitle}}\": {{surveyUrl}}",
        "Påmindelse",
        "En venlig påmindelse: dit svar på \"{{surveyTitle}}\" hjælper os stadig: {{surveyUrl}}"
    ),
    words!(
        "nb",
        "Vi vil gjerne høre din mening",
        "Bruk gjerne et øyeblikk på undersøkelsen vår \"{{surveyTitle}}\": {{surveyUrl}}",
        "Påminnelse",
        "En vennlig påminnelse: svaret ditt på \"{{surveyTitle}}\" hjelper oss fortsatt: {{surveyUrl}}"
    ),
    words!(
        "fi",
        "Mielipiteesi on meille tärkeä",
        "Vastaathan hetken kyselyymme \"{{surveyTitle}}\": {{surveyUrl}}",
        "Muistutus",
        "Muistutus: vastauksestasi kyselyyn \"{{surveyTitle}}\" on meille yhä apua: {{surveyUrl}}"
    ),
    words!(
        "cs",
        "Zajímá nás váš názor",
        "Věnujte prosím chvíli našemu průzkumu \"{{surveyTitle}}\": {{surveyUrl}}",
        "Připomínka",
        "Připomínáme: vaše odpověď na \"{{surveyTitle}}\" nám stále pomůže: {{surveyUrl}}"
    ),
    words!(
        "sk",
        "Zaujíma nás váš názor",
        "Venujte, prosím, chvíľu nášmu prieskumu \"{{surveyTitle}}\": {{surveyUrl}}",
        "Pripomienka",
        "Pripomíname: vaša odpoveď na \"{{surveyTitle}}\" nám stále pomôže: {{surveyUrl}}"
    ),
    words!(
        "hu",
        "Fontos nekünk a véleménye",
        "Kérjük, szánjon egy percet \"{{surveyTitle}}\" című felmérésünkre: {{surveyUrl}}",
        "Emlékeztető",
        "Emlékeztető: \"{{surveyTitle}}\" című felmérésünkre adott válasza még segít nekünk: {{surveyUrl}}"
    ),
    words!(
        "ro",
        "Părerea dumneavoastră contează",
        "Vă rugăm să acordați un moment sondajului nostru \"{{surveyTitle}}\": {{surveyUrl}}",
        "Reamintire",
        "Vă reamintim: răspunsul dumneavoastră la \"{{surveyTitle}}\" ne-ar fi în continuare de folos: \
         {{surveyUrl}}"
    ),
    words!(
        "el",
        "Η γνώμη σας μετράει",
        "Παρακαλούμε αφιερώστε λίγο χρόνο στην έρευνά μας \"{{surveyTitle}}\": {{surveyUrl}}",
        "Υπενθύμιση",
        "Μια φιλική υπενθύμιση: η απάντησή σας στο \"{{surveyTitle}}\" θα μας βοηθούσε ακόμη: {{surveyUrl}}"
    ),
    words!(
        "bg",
        "Вашето мнение е важно за нас",
        "Моля, отделете минута за нашата анкета \"{{surveyTitle}}\": {{surveyUrl}}",
        "Напомняне",
        "Напомняме: отговорът ви на анкетата \"{{surveyTitle}}\" все още ще ни помогне: {{surveyUrl}}"
    ),
    words!(
        "hr",
        "Vaše mišljenje nam je važno",
        "Molimo odvojite trenutak za našu anketu \"{{surveyTitle}}\": {{surveyUrl}}",
        "Podsjetnik",
        "Ljubazan podsjetnik: vaš odgovor na \"{{surveyTitle}}\" i dalje bi nam pomogao: {{surveyUrl}}"
    ),
    words!(
        "sl",
        "Vaše mnenje nam je pomembno",
        "Prosimo, vzemite si trenutek za našo anketo \"{{surveyTitle}}\": {{surveyUrl}}",
        "Opomnik",
        "Prijazen opomnik: vaš odgovor na \"{{surveyTitle}}\" bi nam še vedno pomagal: {{surveyUrl}}"
    ),
    words!(
        "ca",
        "La vostra opinió, si us plau",
        "Si us plau, dediqueu un moment a la nostra enquesta \"{{surveyTitle}}\": {{surveyUrl}}",
        "Recordatori",
        "Un recordatori: la vostra resposta a \"{{surveyTitle}}\" encara ens ajudaria: {{surveyUrl}}"
    ),
    words!(
        "ms",
        "Kami ingin mendengar pendapat anda",
        "Sila luangkan sedikit masa untuk tinjauan kami \"{{surveyTitle}}\": {{surveyUrl}}",
        "Peringatan",
        "Peringatan mesra: jawapan anda untuk \"{{surveyTitle}}\" masih dapat membantu kami: {{surveyUrl}}"
    ),
    words!(
        "fil",
        "Mahalaga sa amin ang inyong opinyon",
        "Maglaan po sana ng sandali para sa aming survey na \"{{surveyTitle}}\": {{surveyUrl}}",
        "Paalala",
        "Paalala po: makatutulong pa rin sa amin ang inyong sagot sa \"{{surveyTitle}}\": {{surveyUrl}}"
    ),
    words!(
        "sw",
        "Maoni yako ni muhimu kwetu",
        "Tafadhali chukua muda mfupi kujibu utafiti wetu \"{{surveyTitle}}\": {{surveyUrl}}",
        "Kikumbusho",
        "Kikumbusho: jibu lako kwa \"{{surveyTitle}}\" bado litatusaidia: {{surveyUrl}}"
    ),
    words!(
        "az",
        "Rəyiniz bizim üçün önəmlidir",
        "Zəhmət olmasa, \"{{surveyTitle}}\" sorğumuza bir az vaxt ayırın: {{surveyUrl}}",
        "Xatırlatma",
        "Xatırladırıq: \"{{surveyTitle}}\" sorğusuna cavabınız bizə hələ də kömək edər: {{surveyUrl}}"
    ),
    words!(
        "ta",
        "உங்கள் கருத்து எங்களுக்கு முக்கியம்",
        "எங்கள் \"{{surveyTitle}}\" கருத்துக்கணிப்புக்கு சிறிது நேரம் ஒதுக்கவும்: {{surveyUrl}}",
        "நினைவூட்டல்",
        "ஒரு நினைவூட்டல்: \"{{surveyTitle}}\" குறித்த உங்கள் பதில் இன்னும் எங்களுக்கு உதவும்: {{surveyUrl}}"
    ),
];
