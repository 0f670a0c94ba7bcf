"""What tools can do: for each kind of tool its names, arguments, requests, results and the answers to them.

Requests and answers name the arguments by key; `{r}` is the result's value. A family's pools are divided like all
others, so the held-out set has tool names, argument names and phrasings that training never saw.
"""
import random
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

from words import CITIES, NAMES, PLACES, THINGS, TOPIC_WORDS, Pool, decimal, nonsense, number, part_of, words

Values = dict[str, Any]
Maker = Callable[[random.Random, str], Any]


@dataclass(frozen=True)
class Argument:
    key: str
    kind: str  # JSON Schema type
    names: Pool[str]
    about: Pool[str]
    make: Maker


@dataclass(frozen=True)
class Family:
    names: Pool[str]
    about: Pool[str]
    arguments: tuple[Argument, ...]
    requests: Pool[str]
    result_key: str
    result: Maker
    answer: str

    def values(self, rng: random.Random, part: str) -> Values:
        made = {argument.key: argument.make(rng, part) for argument in self.arguments}
        if self.result_key == "converted":  # both units are of one dimension
            made["from"], made["to"] = rng.sample(rng.choice(UNITS), 2)
        return made


def phrase(rng: random.Random, part: str) -> str:
    """Two or three words to search for or to write down."""
    pieces = [rng.choice([nonsense(rng, part), THINGS.pick(rng, part), PLACES.pick(rng, part)]) for _ in range(rng.choice((2, 2, 3)))]
    return " ".join(pieces)


def city(rng: random.Random, part: str) -> str:
    return CITIES.pick(rng, part) if rng.random() < 0.6 else nonsense(rng, part).capitalize()


def path(rng: random.Random, part: str) -> str:
    folder = rng.choice(["", "", "docs/", "src/", "/etc/", "/tmp/", "notes/", "data/", nonsense(rng, part) + "/"])
    return folder + nonsense(rng, part) + rng.choice([".txt", ".md", ".json", ".cpp", ".csv", ".conf", ".log"])


def date(rng: random.Random, part: str) -> str:
    while True:
        day = f"{rng.randint(2024, 2029)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        if part_of(day) == part:
            return day


def clock(rng: random.Random, part: str) -> str:
    return f"{rng.randint(7, 22):02}:{rng.choice(('00', '15', '30', '45', '10', '20'))}"


def expression(rng: random.Random, part: str) -> str:
    return f"{number(rng, part, 11, 9999)} {rng.choice('+-*/')} {number(rng, part, 2, 999)}"


def amount(rng: random.Random, part: str) -> float | int:
    return decimal(rng, part) if rng.random() < 0.4 else number(rng, part, 2, 900)


def one_of(text: str) -> Maker:
    choices = words(text)
    return lambda rng, part: rng.choice(choices)


def symbol(rng: random.Random, part: str) -> str:
    while True:
        letters = "".join(rng.choice("ABCDEFGHIKLMNOPRSTUVWXZ") for _ in range(rng.choice((3, 4))))
        if part_of(letters) == part:
            return letters


def name(rng: random.Random, part: str) -> str:
    return NAMES.pick(rng, part)


def title(rng: random.Random, part: str) -> str:
    return TOPIC_WORDS.pick(rng, part) if rng.random() < 0.7 else phrase(rng, part)


class _Drawn(NamedTuple):
    """An argument as its family describes it."""
    key: str
    kind: str
    names: str
    about: str
    make: Maker


def _family(names: str, about: str, arguments: list[_Drawn], requests: str, result_key: str, result: Maker, answer: str) -> Family:
    own = "tools." + words(names)[0]
    made = tuple(Argument(one.key, one.kind, Pool(words(one.names), f"{own}.{one.key}.names"), Pool(words(one.about), f"{own}.{one.key}.about"), one.make)
                 for one in arguments)
    return Family(Pool(words(names), f"{own}.names"), Pool(words(about), f"{own}.about"), made, Pool(words(requests), f"{own}.requests"),
                  result_key, result, answer)


UNITS = [words("km miles metres feet inches yards cm"), words("kg pounds grams ounces tons stones"), words("litres gallons pints cups"),
         words("celsius fahrenheit kelvin"), words("hours minutes seconds days weeks"), words("bytes kilobytes megabytes gigabytes")]
ROOMS = one_of("kitchen|bedroom|bathroom|hall|garage|office|cellar|living room")
CITY = _Drawn("city", "string", "city|location|place|town|where|city_name|spot|municipality", "The city|Name of the city|Which city|City to look at|The town in question", city)
FILE = _Drawn("path", "string", "path|file|filename|file_path|name|source|file_name|document_path", "Path of the file|The file|Which file|File name|Where the file is", path)

WEATHER = _family("get_weather weather current_weather weather_lookup fetch_weather city_weather getWeather weather_info weather_now",
    "Current weather in a city|Get the weather of a city|Tells the weather in a place|Looks up the weather|Weather report for a city|How the weather is somewhere", [CITY],
    "What is the weather in {city}?|How is the weather in {city}?|Weather in {city}?|Is it raining in {city}?|Tell me the weather in {city}.|What's the weather like in {city}?|I travel to {city}. How is the weather?|Do I need an umbrella in {city}?|weather {city}|Is it warm in {city} now?|Please check the weather in {city}.|Is the sun shining in {city}?|I am going to {city}, what weather can I expect?|Is it cold outside in {city}?",
    "weather", lambda rng, part: f"{rng.randint(-9, 35)} degrees, {rng.choice(words('sunny cloudy rain snow fog windy clear'))}", "The weather in {city}: {r}.")
CALCULATOR = _family("calculator calculate compute evaluate math do_math calc evalExpression eval_math",
    "Calculates an expression|Evaluate an arithmetic expression|Does arithmetic|Computes numbers|Calculator for large numbers|Works out a calculation", [
    _Drawn("expression", "string", "expression|expr|formula|input|calculation|term|sum_text", "The expression|Expression to evaluate|What to calculate|Arithmetic expression|The calculation", expression)],
    "What is {expression}?|Calculate {expression}.|How much is {expression}?|Compute {expression}.|{expression}|Please work out {expression}.|Evaluate {expression}.|What do I get for {expression}?|Use the calculator for {expression}.|Solve {expression} for me.|I need the result of {expression}.|Can you calculate {expression}?|Tell me what {expression} is.",
    "result", lambda rng, part: number(rng, part, 10, 99999), "{expression} = {r}")
CALENDAR = _family("create_event add_event calendar_add new_appointment schedule add_to_calendar createEvent calendar_entry plan_event",
    "Adds an event to the calendar|Create a calendar entry|Puts an appointment into the calendar|Schedules an event|New calendar event|Enters an event in the calendar", [
    _Drawn("title", "string", "title|summary|event|subject|name|what|event_title", "Title of the event|The event|What happens|Name of the appointment|Short title", title),
    _Drawn("date", "string", "date|day|on|event_date|when|the_day", "The date|Date as YYYY-MM-DD|Day of the event|On which date", date),
    _Drawn("time", "string", "time|start|at|start_time|hour|begin_time", "The time|Time as HH:MM|Start of the event|At what time", clock)],
    "Add {title} to my calendar on {date} at {time}.|Schedule {title} for {date} at {time}.|Put {title} in the calendar for {date}, {time}.|I have {title} on {date} at {time}. Note it in my calendar.|Create an event: {title}, {date}, {time}.|Please plan {title} on {date} at {time}.|New appointment on {date} at {time}: {title}.|On {date} at {time} there is {title}. Put it in the calendar.|Calendar: {title} at {time} on {date}.|Enter {title} in my calendar, {date} at {time}.|Make a calendar entry for {title} on {date} at {time}.|Can you schedule {title} at {time} on {date}?|Book {title} for {time} on {date} in my calendar.",
    "status", one_of("created|ok|added"), "Done: {title} is in your calendar on {date} at {time}.")
READ = _family("read_file file_read open_file get_file cat load_file readFile file_contents show_file",
    "Reads a file|Read the content of a file|Returns what a file holds|Opens a file and reads it|Content of a text file|Shows the content of a file", [FILE],
    "Read {path}.|What is in {path}?|Show me the file {path}.|Open {path}.|Please read the file {path}.|What does {path} say?|Print {path}.|Can you read {path} for me?|I want to see {path}.|Show the content of {path}.|Have a look at {path}.|Let me see what {path} contains.|Tell me what the file {path} holds.",
    "content", phrase, "The file {path} says: {r}")
SEARCH = _family("search web_search search_web find lookup google searchWeb query_web internet_search",
    "Searches the web|Search the internet|Finds pages on the web|Web search|Looks things up on the internet|Finds information online", [
    _Drawn("query", "string", "query|q|text|search|terms|keywords|search_text", "What to search for|The query|Search terms|Words to look for|Text to find", phrase)],
    "Search for {query}.|Search the web for {query}.|Find {query} on the internet.|Look up {query} online.|Please search {query}.|What does the web say about {query}?|Find pages about {query}.|Do a web search for {query}.|Can you search for {query}?|I need information about {query} from the internet.|Look for {query} on the web.|Search online: {query}|Find something online about {query}.",
    "found", phrase, "I found this about {query}: {r}")
CONVERT = _family("convert_units convert unit_converter convert_unit units change_unit convertUnits unit_conversion measure_convert",
    "Converts units|Convert a value from one unit to another|Unit conversion|Changes a value to another unit|Converts lengths and weights|Turns one unit into another", [
    _Drawn("value", "number", "value|amount|number|quantity|x|value_to_convert", "The value|Value to convert|How much|The number", amount),
    _Drawn("from", "string", "from|from_unit|source|unit|source_unit|old_unit", "Unit of the value|Unit to convert from|The old unit|From which unit", one_of("km")),
    _Drawn("to", "string", "to|to_unit|target|into|target_unit|new_unit", "Unit to convert to|The wanted unit|The new unit|To which unit", one_of("miles"))],
    "Convert {value} {from} to {to}.|How many {to} are {value} {from}?|What is {value} {from} in {to}?|{value} {from} in {to}|Change {value} {from} into {to}.|Please convert {value} {from} into {to}.|I have {value} {from}. How much is that in {to}?|Give me {value} {from} in {to}.|Turn {value} {from} to {to}.|Express {value} {from} in {to}.|How much is {value} {from} in {to}?|I need {value} {from} as {to}.",
    "converted", amount, "{value} {from} are {r} {to}.")
MAIN = [WEATHER, CALCULATOR, CALENDAR, READ, SEARCH, CONVERT]

OTHER = [
    _family("send_mail send_email mail email write_mail sendMail mail_send", "Sends an e-mail|Send a mail to somebody|Writes an e-mail|Mails a person", [
        _Drawn("to", "string", "to|recipient|person|receiver|addressee", "Who gets it|The recipient|Name of the person|Receiver", name),
        _Drawn("subject", "string", "subject|about|topic|title|heading", "The subject|What it is about|Subject line|Topic", title)],
        "Send {to} a mail about {subject}.|Write an e-mail to {to} about {subject}.|Mail {to}: {subject}|Please send a mail about {subject} to {to}.|E-mail {to} about {subject}.|Let {to} know about {subject} by mail.|I want to mail {to} about {subject}.|Tell {to} by e-mail about {subject}.",
        "status", one_of("sent|ok|queued"), "Done: {to} gets a mail about {subject}."),
    _family("set_timer timer start_timer countdown new_timer kitchen_timer", "Sets a timer|Starts a timer of some minutes|Counts down minutes|Timer", [
        _Drawn("minutes", "integer", "minutes|duration|length|mins|time_in_minutes", "How many minutes|Minutes|Length in minutes|Duration in minutes", lambda rng, part: number(rng, part, 2, 90))],
        "Set a timer for {minutes} minutes.|Timer, {minutes} minutes.|Start a timer of {minutes} minutes.|Wake me in {minutes} minutes.|Count down {minutes} minutes.|Please set the timer to {minutes} minutes.|Let me know when {minutes} minutes are over.|I need a {minutes} minute timer.",
        "status", one_of("started|running|ok"), "The timer is set to {minutes} minutes."),
    _family("stock_price get_stock stock quote share_price getQuote stock_lookup", "Price of a stock|Gets a share's price|Stock quote|Looks up what a share costs", [
        _Drawn("symbol", "string", "symbol|ticker|stock|share|stock_code", "The symbol|Ticker symbol|Which stock|The share", symbol)],
        "What is the price of {symbol}?|Stock price of {symbol}?|How much is a share of {symbol}?|Get me the quote for {symbol}.|How is the {symbol} stock?|Show the {symbol} share price.|Where does {symbol} trade?|Please look up the {symbol} stock.",
        "price", amount, "A share of {symbol} costs {r}."),
    _family("switch_light light set_light lamp lights light_control", "Switches a light|Turns lamps in a room on or off|Controls the light|Light switch of a room", [
        _Drawn("room", "string", "room|where|place|area|chamber", "The room|Which room|Room of the lamp|Where", ROOMS),
        _Drawn("state", "string", "state|to|mode|position|setting", "on or off|New state, on or off|What to do: on or off|The state: on or off", one_of("on off"))],
        "Turn the light in the {room} {state}.|Switch the {room} light {state}.|Light {state} in the {room}.|{room} light {state}, please.|Please turn {state} the light in the {room}.|The light in the {room} should be {state}.|Can you switch {state} the {room} lamp?|I want the {room} light {state}.",
        "status", one_of("done ok switched"), "The light in the {room} is {state}."),
    _family("exchange currency convert_currency money_exchange fx currencyConvert currency_rate", "Converts money|Currency conversion|Changes an amount into another currency|Exchange rates", [
        _Drawn("amount", "number", "amount|sum|value|money|how_much", "The amount|How much money|Sum to change|Amount of money", amount),
        _Drawn("from", "string", "from|currency|source|base|from_currency", "Currency of the amount|The old currency|From which currency|Base currency", one_of("euros dollars pounds yen")),
        _Drawn("to", "string", "to|target|into|wanted|to_currency", "Wanted currency|The new currency|To which currency|Target currency", one_of("francs crowns rupees pesos"))],
        "Change {amount} {from} into {to}.|How many {to} do I get for {amount} {from}?|What are {amount} {from} in {to}?|Exchange {amount} {from} to {to}.|I have {amount} {from} and need {to}.|Convert {amount} {from} to {to}.|Please change {amount} {from} to {to}.|{amount} {from} to {to}",
        "result", amount, "{amount} {from} are {r} {to}."),
    _family("translate translation translate_text translator to_language translateTo", "Translates text|Translation into a language|Puts words into another language|Translates words", [
        _Drawn("text", "string", "text|words|phrase|input|source_text", "The text|Text to translate|What to translate|Words to translate", phrase),
        _Drawn("language", "string", "language|to|target|lang|into_language", "The language|Target language|Into which language|Wanted language", one_of("German French Spanish Italian Polish Dutch Greek Danish"))],
        "Translate {text} into {language}.|How do you say {text} in {language}?|What is {text} in {language}?|{text} in {language}, please.|Put {text} into {language}.|Please translate {text} to {language}.|I need {text} in {language}.|Give me the {language} for {text}.",
        "translation", phrase, "In {language} it is: {r}"),
    _family("get_route route directions navigate find_route routePlan way", "Finds a route|Directions from one place to another|Plans a way|How to get from one city to another", [
        _Drawn("from", "string", "from|start|origin|departure|begin", "Where it starts|Start|The origin|First city", city),
        _Drawn("to", "string", "to|destination|end|goal|arrival", "Where it ends|Destination|The goal|Last city", city)],
        "How do I get from {from} to {to}?|Route from {from} to {to}.|Show me the way from {from} to {to}.|I want to go from {from} to {to}.|Directions from {from} to {to}, please.|Plan a trip from {from} to {to}.|Which way leads from {from} to {to}?|Navigate from {from} to {to}.",
        "route", phrase, "From {from} to {to}: {r}"),
    _family("play_music play music start_song player playSong", "Plays music|Plays songs of an artist|Music player|Starts a song", [
        _Drawn("artist", "string", "artist|singer|by|musician|performer", "The artist|Who sings|Whose music|Artist to play", name)],
        "Play something by {artist}.|Play music by {artist}.|I want to hear {artist}.|Put on some {artist}.|Music by {artist}, please.|Please play a song of {artist}.|Start music of {artist}.|Let us listen to {artist}.",
        "playing", phrase, "Now playing {r} by {artist}."),
    _family("order_item order buy add_to_cart shop purchase", "Orders things|Buys items in the shop|Orders an item|Puts items in the cart", [
        _Drawn("item", "string", "item|product|article|thing|wanted_goods", "The item|What to order|Product to buy|Which thing", lambda rng, part: THINGS.pick(rng, part) if rng.random() < 0.5 else nonsense(rng, part)),
        _Drawn("count", "integer", "count|quantity|number|amount|how_many", "How many|Quantity|Number of items|The count", lambda rng, part: number(rng, part, 2, 60))],
        "Order {count} of the item {item}.|Buy {count} x {item}.|I need {count} pieces of {item}.|Please order {item}, {count} pieces.|Get me {count} times {item}.|Put {count} x {item} in the cart.|{count} x {item}, please order them.|Purchase {count} units of {item}.",
        "status", one_of("ordered|ok|in the cart"), "Done: {count} x {item}."),
    _family("set_heating heating thermostat set_temperature heat roomHeat", "Sets the heating|Temperature of a room's heating|Thermostat of a room|Heats a room", [
        _Drawn("room", "string", "room|where|place|zone|heated_room", "The room|Which room|Room to heat|Where", ROOMS),
        _Drawn("degrees", "integer", "degrees|temperature|target|celsius|wanted_degrees", "Wanted temperature|Degrees|How warm|Temperature in degrees", lambda rng, part: number(rng, part, 12, 28))],
        "Heat the {room} to {degrees} degrees.|Set the {room} to {degrees} degrees.|Make it {degrees} degrees in the {room}.|Heating of the {room} to {degrees}, please.|The {room} should have {degrees} degrees.|I want {degrees} degrees in the {room}.|Please warm the {room} to {degrees} degrees.|Thermostat {room}: {degrees}",
        "status", one_of("set ok done"), "The {room} will have {degrees} degrees."),
    _family("list_files ls list_folder dir folder_contents listDir", "Lists the files of a folder|Shows what files a folder has|Directory listing|Names of files in a folder", [
        _Drawn("folder", "string", "folder|directory|dir|path|folder_path", "The folder|Which folder|Directory|Folder to list", lambda rng, part: nonsense(rng, part) + rng.choice(["/", "/src", "/data", ""]))],
        "Which files are in the folder {folder}?|List the folder {folder}.|List {folder}.|Show all files of {folder}.|What files does {folder} have?|ls {folder}|Please list the directory {folder}.|Give me a directory listing of {folder}.",
        "files", path, "In {folder} there is: {r}"),
    _family("save_note note write_note add_note remember makeNote", "Saves a note|Writes down a note|Keeps a note|Notes something", [
        _Drawn("text", "string", "text|note|content|body|note_text", "The note|Text of the note|What to write down|Content", phrase)],
        "Note: {text}|Write down {text}.|Make a note: {text}|Save a note about {text}.|Please note {text}.|Remember this: {text}|Keep a note that says {text}.|Jot down {text}.",
        "status", one_of("saved ok noted"), "Noted: {text}"),
    _family("define dictionary define_word meaning word_lookup getDefinition", "Meaning of a word|Looks up a word in the dictionary|Dictionary|Defines words", [
        _Drawn("word", "string", "word|term|entry|lemma|headword", "The word|Word to define|Which word|Word to look up", nonsense)],
        "What does the word {word} mean?|Define {word}.|Meaning of {word}?|Look up {word} in the dictionary.|What is the definition of {word}?|Explain the word {word}.|Dictionary: {word}|Please define the word {word}.",
        "meaning", phrase, "{word} means: {r}"),
]
