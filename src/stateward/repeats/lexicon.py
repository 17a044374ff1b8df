"""Words of everyday customer service, by their meaning in a question of an agent.

Maintained by hand. `KINDS` are the sorts of answer a question can want, `ROLES` distinguish two
answers of one sort (leaving and coming back), `SAME` are words for one thing.
"""

from __future__ import annotations


def _index(groups: dict[str, str]) -> dict[str, str]:
    return {word: name for name, words in groups.items() for word in words.split()}


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


# A noun that says what sort of answer is wanted, whether in a question or in a slot's name.
KINDS = _index(
    {
        "place": "where city town place location area region neighborhood neighbourhood suburb "
        "destination origin airport station stop venue county state province "
        "whereabouts locality district somewhere",
        "date": "date day month weekday",
        "time": "time hour clock oclock",
        "when": "when schedule",
        "duration": "duration length long nights",
        "count": "many number count quantity num",
        "price": "price cost budget fare fee rate spend pricing pricey expensive cheap afford "
        "spending amount",
        "name": "name title called named",
        "who": "who whom",
        "postcode": "zip zipcode postcode postal",
        "country": "country nationality",
        "address": "address street",
        "email": "email mail inbox",
        "phone": "phone telephone mobile cell callback",
        "kind": "kind type sort category style classification variety",
        "way": "way method means mode",
        "id": "id identifier",
    }
)

# Words for the same thing, as stems of `words.stem`; the first one stands for all.
SAME = _index(
    {
        "people": "people person persons guest passenger seat ticket party adult traveler "
        "traveller rider attendee diner ticketholder folk pax occupant individual visitor",
        "room": "room suite",
        "bed": "bed bedroom",
        "child": "child children kid infant",
        "bath": "bath bathroom",
        "food": "food cuisine dish meal eat menu dine culinary",
        "restaurant": "restaurant eatery bistro cafe",
        "car": "car vehicle automobile auto",
        "ride": "ride cab taxi lift",
        "bag": "bag luggage baggage suitcase",
        "airline": "airline carrier",
        "class": "class cabin",
        "event": "event show concert performance",
        "team": "team",
        "song": "song track tune",
        "movie": "movie film",
        "music": "music",
        "artist": "artist singer band musician performer",
        "device": "device speaker player gadget",
        "doctor": "doctor physician dentist provider therapist practitioner specialist",
        "hotel": "hotel accommodation lodging hostel motel inn",
        "home": "home house apartment flat property",
        "account": "account",
        "recipient": "recipient receiver receive payee beneficiary",
        "money": "money payment pay fund cash",
        "amount": "amount sum total",
        "star": "star rating rated",
        "outdoor": "outdoor outside patio alfresco",
        "vegetarian": "vegetarian vegan meatless",
        "smoke": "smoke smoking smoker",
        "pet": "pet dog cat animal",
        "wifi": "wifi wi-fi internet wireless",
        "insurance": "insurance insured coverage cover",
        "refund": "refund refundable",
        "stop": "layover nonstop direct connection",
        "language": "language lang subtitle tongue",
        "year": "year",
        "age": "age old",
        "birth": "birth born birthday dob birthdate",
        "order": "order purchase",
        "card": "card creditcard",
        "size": "size",
        "color": "color colour shade",
        "reason": "reason why purpose motive",
        "allergy": "allergy allergic allergen intolerance diet dietary",
        "contact": "contact reach",
        "alarm": "alarm alert",
        "private": "private public visibility",
        "shared": "shared share pool pooled",
        "album": "album record",
        "director": "director directed",
        "actor": "actor actress starring cast",
        "furnished": "furnished furniture",
        "laundry": "laundry washer",
        "garage": "garage parking park",
        "appointment": "appointment",
        "serial": "serial",
        "model": "model",
        "error": "error fault",
        "version": "version release",
    }
)

# The events that a place, a date or a time belongs to.
STARTING = _words(
    "start begin beginning depart departure leave leaving outbound pickup collect commence set"
)
ENDING = _words("end ending return back inbound dropoff finish until till checkout through over")
LEAVING = _words(
    "from origin depart departure leave leaving start begin pickup collect board boarding source"
)
REACHING = _words(
    "to destination dest arrive arrival head go going visit dropoff travel fly toward towards"
)

# Events that have an hour, not just a day.
HOURLY = _words("pickup collect book reserve reservation table appointment meet call deliver")

# Words without a topic; the other words of a question or of a slot's name are its subject.
PLAIN = _words(
    "a an the of for in on at by with and or to from as is are was be been am do does did doe have",
    "has had having would will can could should shall may might must i you we it they he she me my",
    "your us our their this that these those there here what which who whom whose how when where",
    "why please kindly ok okay sure certainly great thank thanks hello hi yes no not so then also",
    "just now again any some one specific particular certain special exact exactly preferred",
    "prefer preference preferable favorite favourite desired desire like want need wish plan",
    "planning look looking search searching find finding get getting make making take taking tell",
    "know let give provide specify say go going try trying help think thinking mind interested",
    "intend hope expect add added adding include included including book booking booked reserve",
    "reservation reserved use using set put much about approximate approximately roughly around",
    "really right correct detail information info more else other another first second next last",
    "new current day today choose choice select pick option opt something anything someone total",
    "good suitable best appropriate ideal feel suit method way means mode id",
    "being if too well all am's we're dear keep kept able allowed allow available",
    "value slot field user customer client profile data item pref prefs requested require required",
    "request only must time date place location kind type sort category name number",
    "num count many per who whom amount",
    "start begin end return depart departure leave arrive pickup dropoff check",
    "when's where's what's who's trip travel journey schedule question ask asking happy glad",
    "let's whats wheres go're you're i'll i'd you'd would've",
)

# With these a yes-or-no question asks for the thing itself ("do you have a particular … in mind").
OPEN = _words(
    "particular specific certain prefer preferred preference preferable favorite favourite mind",
    "approximate exact desired idea any special convenient tell know provide specify share give",
    "choice",
)

NUMBERS = _index(
    {
        "1": "one single",
        "2": "two couple pair",
        "3": "three",
        "4": "four",
        "5": "five",
        "6": "six",
        "7": "seven",
        "8": "eight",
        "9": "nine",
        "10": "ten",
        "11": "eleven",
        "12": "twelve dozen",
    }
)

# Things whose type a record may well call just "type" or "category".
ABOUT = {
    "restaurant": ("food",),
    "movie": ("genre",),
    "home": ("home", "room"),
    "travel": ("attraction",),
    "hotel": ("room",),
    "bus": ("ticket", "fare"),
    "flight": ("ticket", "class"),
    "train": ("ticket", "class"),
}

# Names of slots that hold the sort of such a thing.
SORTS = {"genre": frozenset(("movie", "song", "music", "book", "event"))}

# Words that decide what a question asks for, whatever else the question mentions.
DISTINCT = _words("birth problem issue error model happen wrong delay complaint previous current")

# Words that may stand beside a name of the user.
OWN_NAME = _words("full family given people account contact legal complete")

# How a question begins: with a question word, or with a verb before its subject.
OPENERS = _words("what which where when who whom whose how why")
INVERTED = _words("do does did would will can could should shall may is are was have has any am")
LEADS = _words(
    "ok okay sure certainly great alright right yes yeah thanks thank you and so then well now",
    "also in on at from for to by until till with of perfect good hi hello please no problem but",
)

# Words so common that two sentences with the same ones need not be related.
COMMON = _words(
    "a an the i you we it me my your to for of in on at and or is are was be do would will can",
    "like want need please what when where which who how that this with from have book yes no go",
)

# Words with which a question for a place asks where someone lives.
LIVING = _words("live home reside base billing residence")
