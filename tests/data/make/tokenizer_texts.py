"""Texts that tokenizers disagree about, the same on every run: what make_tokenizers.py trains on and compares with.

Languages, code, numbers, white space, control characters, combining marks, emoji, markup of special tokens, long words and
random characters. The sentences are article 1 of the Universal Declaration of Human Rights (public domain) in more than 30
languages, written from memory; everything else is made here. Characters are those of Unicode 14 (Python 3.11's tables) or older.
"""
import random
import unicodedata

SENTENCES = """All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.
Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geiste der Brüderlichkeit begegnen.
Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.
Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.
Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Dotados de razão e de consciência, devem agir uns para com os outros em espírito de fraternidade.
Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati di ragione e di coscienza e devono agire gli uni verso gli altri in spirito di fratellanza.
Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.
Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni rozumem a svědomím a mají spolu jednat v duchu bratrství.
Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, ésszel és lelkiismerettel bírván, egymással szemben testvéri szellemben kell hogy viseltessenek.
Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on annettu järki ja omatunto, ja heidän on toimittava toisiaan kohtaan veljeyden hengessä.
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler. İSTANBUL ışık
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền. Mọi con người đều được tạo hoá ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình bằng hữu.
Hver maður er borinn frjáls og jafn öðrum að virðingu og réttindum. Menn eru gæddir vitsmunum og samvizku, og ber þeim að breyta bróðurlega hverjum við annan.
Toate ființele umane se nasc libere și egale în demnitate și în drepturi. Ele sunt înzestrate cu rațiune și conștiință și trebuie să se comporte unele față de altele în spiritul fraternității.
Все люди рождаются свободными и равными в своём достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.
Всі люди народжуються вільними і рівними у своїй гідності та правах. Вони наділені розумом і совістю і повинні діяти у відношенні один до одного в дусі братерства.
Всички хора се раждат свободни и равни по достойнство и права. Те са надарени с разум и съвест и следва да се отнасят помежду си в дух на братство.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.
Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։ Նրանք ունեն բանականություն ու խիղճ և միմյանց պետք է եղբայրաբար վերաբերվեն։
ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. მათ მინიჭებული აქვთ გონება და სინდისი და ერთმანეთის მიმართ უნდა იქცეოდნენ ძმობის სულისკვეთებით.
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג איש ברעהו ברוח של אחווה. בְּרֵאשִׁית בָּרָא
يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم بعضا بروح الإخاء، وَالسَّلَامُ عَلَيْكُمْ؟
تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند. همه دارای عقل و وجدان هستند و باید نسبت به یکدیگر با روح برادری رفتار کنند.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।
সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। তাঁদের বিবেক এবং বুদ্ধি আছে; সুতরাং সকলেরই একে অপরের প্রতি ভ্রাতৃত্বসুলভ মনোভাব নিয়ে আচরণ করা উচিত।
மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள், அவர்கள் நியாயத்தையும் மனச்சாட்சியையும் இயற்பண்பாகப் பெற்றவர்கள்.
మనుష్యులందరు స్వతంత్రులుగానే జన్మించిరి. గౌరవమునందును, హక్కులందును ఎల్లరును సమానులే. వారందరును తెలివితేటలు, మనస్సాక్షి గలవారు.
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ
មនុស្សទាំងអស់កើតមកមានសេរីភាពនិងសមភាពក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរនិងសិទ្ធិ។ လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများဖြစ်သည်။ ຄົນທຸກຄົນເກີດມາມີສິດເສລີ
人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。人人生而自由，在尊嚴和權利上一律平等。
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。データ ﾃﾞｰﾀ
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.
የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው። የተፈጥሮ ማስተዋልና ሕሊና ስላለው አንዱ ሌላውን በወንድማማችነት መንፈስ መመልከት ይገባዋል። ᎣᏏᏲ ᐃᓄᒃᑎᑐᑦ
Binadamu wote wamezaliwa huru, hadhi na haki zao ni sawa. Wote wamejaliwa akili na dhamiri, hivyo yapasa watendeane kindugu. Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba.""".split("\n")

PUNCTUATION = ["...", "!!!", "?!", " - ", "---", "====", "//", "/*", "*/", "->", "=>", "::", "<=", "!=", "&&", "||", "``", "```", "''", '""', "«»", "“”", "‘’", "…", "—", "、", "。", "，", "！",
               "¿", "¡", "§", "¶", "•", "~", "^", "$", "€", "₹", "¥", "+", "<>", "[]", "{}", "()", "#", "%", "@", "\\", "_", "__", "।", "،", "؟", "۔", "׃", "‐", "‑", "′", "″", "・", "「」", "！？", "×", "÷", "°", "™", "©", "½", "²"]
CONTRACTIONS = ["I'm", "I'M", "don't", "DON'T", "we'll", "WE'LL", "they've", "THEY'VE", "you're", "YOU'RE", "he'd", "HE'D", "it's", "IT'S", "'s", "'S", "'ſ", "l'été", "d'être", "o'clock", "rock'n'roll", "'tis", "it’s", "don’t", "x's'd", "'LL", "'Ve", " 's", " 'm", "can not", "n't", "do n't"]
WHITE = [" ", "  ", "   ", "    ", "        ", "\t", "\t\t", " \t", "\n", "\n\n", "\n\n\n", " \n", "\n ", "\r\n", "\r\n\r\n", "\r", "\v", "\f", "\u00a0", "\u3000", "\u2003", "\u2009", "\u200b", "\u2028", "\u2029", "\u0085", "\u1680", "\u202f", "\u205f", "\u180e", "\u2060", "\ufeff", " \u00a0 ", " " * 16, " " * 31, "\n" * 7, "\t" * 5]
CONTROLS = ["\x00", "\x01", "\x07", "\x08", "\x0e", "\x1b[31m", "\x1f", "\x7f", "\x80", "\x9f", "\u00ad", "\u200c", "\u200d", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069", "\ufeff", "\ufffd", "\ufff9", "\ufffc", "\ue000", "\uf8ff", "\U000f0000", "\U000e0001", "\ufdd0", "\uffff", "\U0001fffe"]
EMOJI = ["😀", "🦙", "🚀", "👍", "👍🏽", "👩‍👩‍👧‍👦", "👨🏿‍🚀", "🏳️‍🌈", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🇩🇪", "🇯🇵🇫🇷", "1️⃣", "#️⃣", "❤️", "❤", "☎︎", "✅", "😶‍🌫️", "👁️‍🗨️", "♀", "⚕️", "🤷🏼‍♂️", "™️", "🫠", "🀄", "𝒳", "𝟙𝟚𝟛", "🄰"]
MARKS = ["é", "e\u0301", "ñ", "n\u0303", "ö", "o\u0308", "Å", "A\u030a", "\u212b", "ḍ̇", "d\u0323\u0307", "d\u0307\u0323", "ế", "e\u0302\u0301", "e\u0301\u0302", "ﬁ", "ﬃ", "ﬅ", "①", "⑩", "㊀", "㌀", "㎏", "ａｂｃ", "ＡＢＣ１２３", "！？", "ｶﾞ", "ｷﾞ", "が", "か\u3099", "각", "\u1100\u1161\u11a8", "ㄱㅏ", "ß", "ẞ", "ſ", "İ", "i\u0307",
         "ı", "Σίσυφος", "ΟΔΟΣ", "ǆ", "ǅ", "Ǳ", "½", "x²", "H₂O", "ª", "º", "µ", "μ", "Ω", "\u2126", "K", "\u212a", "क़", "\u0915\u093c", "\u0958", "বো", "ো", "กำ", "ກຳ", "שּׁ", "ﷺ", "لا", "ﻻ", "…", "‥", "\u0345", "\u0301", "Z\u0351\u036b\u0343", "a\u0300\u0301\u0302\u0303\u0304", "\u0344", "ŉ", "ŀ", "Ⅻ", "ⅻ", "〇", "\u2003", "\u00a0", "豈", "\uf900", "\U0002f800", "\u0f73", "\u0f0c", "\ufb1d", "ᾳ", "ᾼ", "ΐ", "\u1fbe"]
DIGITS = ["0123456789", "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "०१२३४५६७८९", "০১২৩৪৫৬৭৮৯", "๐๑๒๓๔๕๖๗๘๙", "０１２３４５６７８９", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "⁰¹²³⁴⁵⁶⁷⁸⁹", "一二三四五六七八九十", "½⅓¼¾⅛①②③ⅠⅡⅫ"]
# What templates of published families write, and what looks like it.
MARKUP = ["<s>", "</s>", "<unk>", "<pad>", "<mask>", "<bos>", "<eos>", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
          "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>", "<turn|>", "<|user|>", "<|assistant|>", "<|end|>", "<|channel>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<｜begin▁of▁sentence｜>", "<｜User｜>",
          "<｜Assistant｜>", "[INST]", "[/INST]", "<<SYS>>", "<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", ">>TITLE<<", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<filename>", "<|fim_prefix|>", "<extra_id_0>", "<extra_id_1>", "<unused7>", "<0x0A>", "<0xE2>", "<h1>", "</h1>", "▁", "▁▁", "▁the", "Ġthe", "##ing", "ing@@", "yes", "no",
          "<|", "|>", "<s", "<|im_start", "im_end|>", "<S>", "< s >", "<|IM_END|>", "[cls]", "<reponame>", "new_word", "Übermaß"]

def syllables(rng, least=1, most=4):
    return "".join(rng.choice("bcdfghklmnprstvwz") + rng.choice("aeiou") + rng.choice(["", "", "n", "r", "st", "x"]) for _ in range(rng.randint(least, most)))

def words(rng, count, lines=SENTENCES):
    return [rng.choice(rng.choice(lines).split()) for _ in range(count)]

def sentence(rng, line):
    if len(line.split()) < 12:  # written without spaces
        n = rng.randint(4, 24); start = rng.randint(0, len(line) - n)
        return line[start:start + n]
    parts = line.split(); n = rng.randint(2, 14); start = rng.randint(0, len(parts) - n)
    return " ".join(parts[start:start + n])

def name(rng):
    style = rng.randrange(5); parts = [syllables(rng, 1, 2) for _ in range(rng.randint(1, 3))]
    if style == 0: return "_".join(parts)
    if style == 1: return parts[0] + "".join(p.title() for p in parts[1:])
    if style == 2: return "".join(p.title() for p in parts)
    if style == 3: return "_".join(parts).upper()
    return parts[0] + str(rng.randrange(100))

def number(rng):
    style = rng.randrange(9); n = rng.randrange(10 ** rng.randint(1, 13))
    if style == 0: return f"{n:,}"
    if style == 1: return f"{n / 1000:.{rng.randint(1, 6)}f}"
    if style == 2: return f"0x{n:X}"
    if style == 3: return f"{n:.3e}"
    if style == 4: return f"{rng.randint(1900, 2099)}-{rng.randint(1, 12):02}-{rng.randint(1, 31):02}T{rng.randrange(24):02}:{rng.randrange(60):02}Z"
    if style == 5: return f"({rng.randrange(1000)}) {rng.randrange(1000):03}-{rng.randrange(10000):04}"
    if style == 6: return str(n).translate(str.maketrans("0123456789", rng.choice(DIGITS[1:9])))
    if style == 7: return "".join(rng.choice(rng.choice(DIGITS)) for _ in range(rng.randint(1, 8)))
    return rng.choice(["", "-", "+", "$", "€", "#", "v"]) + str(n) + rng.choice(["", "%", "km", "°C", "th", "."])

def code(rng):
    a, b, c = name(rng), name(rng), name(rng); n, m = number(rng), rng.randrange(1000); s = sentence(rng, rng.choice(SENTENCES)); tab = rng.choice(["  ", "    ", "\t"])
    return rng.choice([
        lambda: f"def {a}({b}, *{c}):\n{tab}\"\"\"{s}\"\"\"\n{tab}if {b} is not None and {b} != {m}:\n{tab}{tab}return [{c}[i] ** 2 for i in range({m})]\n{tab}raise ValueError(f\"{{{b}}}\")\n",
        lambda: f"#include <{b}.h>\n\nint {a}(const char *{b}, size_t n) {{\n{tab}for (int i = 0; i < {m}; ++i) {{\n{tab}{tab}{c}->x[i] += 0x{m:x}u;  // {s}\n{tab}}}\n{tab}return -1;\n}}\n",
        lambda: f"pub fn {a}<'a, T: Into<{b}>>(x: &'a mut T) -> Result<(), Box<dyn Error>> {{\n{tab}let {c} = x.iter().map(|v| v * {m}).collect::<Vec<_>>();\n{tab}println!(\"{{:?}}\", {c});\n}}",
        lambda: f"const {a} = async ({{ {b}, ...{c} }}) => {{\n{tab}await fetch(`https://example.org/${{{b}}}?q={m}`);\n}};\nexport default {a};",
        lambda: f"<div class=\"{a} {b}\" id='{c}'>\n{tab}<h1>{s}</h1>\n{tab}<!-- {n} -->&nbsp;&#{m};\n</div>",
        lambda: f"SELECT {a}, COUNT(*) AS n FROM {b} WHERE {c} >= {m} AND name LIKE '%{syllables(rng)}%' GROUP BY 1;",
        lambda: f"#!/bin/sh\nfor f in $({a} --{b}={m}); do\n\techo \"$f\" | sed -E 's/[^a-z]+/_/g' >> /tmp/{c}.log 2>&1\ndone\n",
        lambda: f"{{\"{a}\": [{m}, {m}.5, null, true], \"{b}\": {{\"{c}\": \"{s}\\n\"}}}}",
        lambda: f"\\begin{{equation}}\n{tab}\\frac{{\\partial {a[0]}}}{{\\partial x_{{{m}}}}} = \\sum_{{i=0}}^{{n}} {b[0]}^2 % {s}\n\\end{{equation}}",
        lambda: f"| {a} | {b} |\n|---|---:|\n| {m} | `{c}` |\n\n* **{s}**\n  - [link](http://{a}.example.com/{b}#{c})\n",
        lambda: f"module {a.title()} where\n\n{b} :: Int -> [a] -> Maybe a\n{b} n (x:xs) | n <= {m} = Just x\n{tab}| otherwise = {b} (n - 1) xs -- {s}",
        lambda: f"  {m}:\t{rng.randrange(1 << 32):08x} \tmov\t{a}, #{m}\t; {b}\r\n  {m + 4}:\t{rng.randrange(1 << 32):08x} \tret\r\n"])()

def usable(c):
    return unicodedata.category(chr(c)) not in ("Cn", "Cs")

def random_characters(rng, count):
    style = rng.randrange(5); out = []
    while len(out) < count:
        if style == 0: c = rng.randrange(0x20, 0x250)
        elif style == 1: c = rng.randrange(0x250, 0x3000)
        elif style == 2: c = rng.randrange(0x3000, 0x10000)
        elif style == 3: c = rng.choice([rng.randrange(0x10000, 0x20000), rng.randrange(0x20, 0x80), rng.randrange(0x20000, 0x30000)])
        else: c = rng.choice([rng.randrange(0x80), rng.randrange(0x800), rng.randrange(0x10000), rng.randrange(0x110000)])
        if usable(c): out.append(chr(c))
    return "".join(out)

def mixture(rng, parts, low, high):
    out = []
    for _ in range(rng.randint(low, high)):
        out.append(rng.choice(parts))
        glue = rng.randrange(4)
        if glue == 0: out.append(" ")
        elif glue == 1: out.append(rng.choice(words(rng, 1)))
        elif glue == 2: out.append(" " + rng.choice(words(rng, 1)) + " ")
    return "".join(out)

def long_word(rng):
    n = rng.randint(60, 700)
    return rng.choice([lambda: rng.choice("aZ0-=. \n_é中") * n, lambda: "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n)), lambda: "".join(syllables(rng) for _ in range(n // 8)), lambda: "".join(rng.choice("ACGT") for _ in range(n)),
                       lambda: "".join(rng.choice("人生而自由在尊严和权利上一律平等") for _ in range(n // 3)), lambda: "".join(rng.choice("0123456789") for _ in range(n)), lambda: "มนุษย์ทั้งหลายเกิดมา" * (n // 20), lambda: "hello" + "ello" * (n // 8)])()

def kinds(rng):
    """category -> maker of one text"""
    spaced = lambda: "".join(w + rng.choice(WHITE) for w in words(rng, rng.randint(1, 5)))
    return {
        "language": lambda: sentence(rng, rng.choice(SENTENCES)), "languages mixed": lambda: rng.choice([" ", "", ", "]).join(words(rng, rng.randint(2, 9))),
        "capitals": lambda: rng.choice([str.upper, str.title, str.swapcase, str.casefold])(sentence(rng, rng.choice(SENTENCES))),
        "code": lambda: code(rng), "numbers": lambda: rng.choice([" ", "", ", ", "/", " a"]).join(number(rng) for _ in range(rng.randint(1, 5))),
        "white space": lambda: rng.choice(["", rng.choice(WHITE)]) + spaced() + rng.choice(["", rng.choice(WHITE)]),
        "white space only": lambda: "".join(rng.choice(WHITE) for _ in range(rng.randint(1, 4))), "controls": lambda: mixture(rng, CONTROLS, 1, 4),
        "combining marks": lambda: mixture(rng, MARKS, 1, 6), "normal forms": lambda: unicodedata.normalize(rng.choice(["NFD", "NFC", "NFKD", "NFKC"]), sentence(rng, rng.choice(SENTENCES))),
        "emoji": lambda: mixture(rng, EMOJI, 1, 5), "markup": lambda: mixture(rng, MARKUP, 1, 5), "markup and white space": lambda: mixture(rng, MARKUP + WHITE, 2, 6),
        "punctuation": lambda: mixture(rng, PUNCTUATION, 1, 6), "contractions": lambda: mixture(rng, CONTRACTIONS + WHITE[:6], 1, 5),
        "addresses": lambda: f"{syllables(rng)}.{syllables(rng)}+{rng.randrange(100)}@{syllables(rng)}.example.com https://www.{syllables(rng)}.org/{name(rng)}/{number(rng)}?q={name(rng)}&x=%20%C3%A9",
        "long words": lambda: long_word(rng), "random characters": lambda: random_characters(rng, rng.randint(1, 16)),
        "random characters in words": lambda: "".join(w + rng.choice(["", " "]) + random_characters(rng, 1) for w in words(rng, rng.randint(1, 5))),
    }

COUNTS = {"language": 260, "languages mixed": 120, "capitals": 80, "code": 180, "numbers": 140, "white space": 140, "white space only": 60, "controls": 80, "combining marks": 130, "normal forms": 100, "emoji": 80, "markup": 120,
          "markup and white space": 120, "punctuation": 90, "contractions": 70, "addresses": 30, "long words": 40, "random characters": 100, "random characters in words": 60}

def texts():
    """2,000 different texts, none empty, the longest of about 700 characters."""
    assert sum(COUNTS.values()) == 2000
    rng = random.Random(37); make = kinds(rng); out = {}
    for category, count in COUNTS.items():
        done = 0
        while done < count:
            text = make[category]()
            if text and text not in out: out[text] = category; done += 1
    return out

def corpus():
    """Lines to train vocabularies on: other texts of the same categories, without markup."""
    rng = random.Random(38); make = kinds(rng); out = list(SENTENCES) * 4
    weights = {"language": 2500, "languages mixed": 500, "capitals": 500, "code": 1500, "numbers": 1200, "white space": 500, "combining marks": 150, "normal forms": 300, "emoji": 250, "punctuation": 500, "contractions": 400, "addresses": 200}
    for category, count in weights.items(): out += [make[category]() for _ in range(count)]
    rng.shuffle(out)
    return out
