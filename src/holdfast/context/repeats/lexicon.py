"""Words of everyday service talk: what they stand for when an agent asks for something.

General English, kept by hand. `KINDS` are the sorts of answer a question can want, `ROLES` tell
two answers of one sort apart (leaving and coming back), `SAME` are words for one thing.
"""

from __future__ import annotations


def _index(groups: dict[str, str]) -> dict[str, str]:
    return {word: name for name, words in groups.items() for word in words.split()}


# A noun that says what sort of answer is wanted, whether in a question or in a slot's name.
KINDS = _index(
    {
        "place": "where city town place location area region neighborhood neighbourhood suburb "
        "destination origin airport station stop venue country county state province zip zipcode "
        "postcode postal whereabouts locality district somewhere",
        "date": "date day month weekday",
        "time": "time hour clock oclock",
        "when": "when schedule",
        "duration": "duration length long nights",
        "count": "many number count quantity num amount_of",
        "price": "price cost budget fare fee rate spend pricing pricey expensive cheap afford "
        "spending rent",
        "name": "name title called named",
        "address": "address street",
        "email": "email mail inbox",
        "phone": "phone telephone mobile cell callback",
        "kind": "kind type sort category genre style classification variety",
    }
)

# Words for the same thing; the first is the one that is kept. Stems as `words.stem` makes them.
SAME = _index(
    {
        "people": "people person persons guest passenger seat ticket party adult traveler "
        "traveller rider attendee diner ticketholder head folk pax occupant individual visitor",
        "room": "room bedroom suite",
        "bath": "bath bathroom",
        "food": "food cuisine dish meal eat menu dine craving fare_food culinary",
        "restaurant": "restaurant eatery diner_place bistro cafe",
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
        "recipient": "recipient receiver payee beneficiary",
        "money": "money payment fund cash",
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
        "appointment": "appointment visit_doctor",
        "serial": "serial",
        "model": "model",
        "error": "error fault",
        "version": "version release",
    }
)

# What a place, a date or a time is the place, date or time of.
STARTS = "start begin beginning depart departure leave leaving outbound pickup collect commence set"
ENDS = "end ending return back inbound dropoff finish until till checkout through over"
FROM = "from origin depart departure leave leaving start begin pickup collect board boarding source"
TO = "to destination dest arrive arrival head go going visit dropoff travel fly toward towards"

STARTING, ENDING = frozenset(STARTS.split()), frozenset(ENDS.split())
LEAVING, REACHING = frozenset(FROM.split()), frozenset(TO.split())

# They carry no topic: what is left of a question or of a slot's name without them is its subject.
PLAIN = frozenset(
    "a an the of for in on at by with and or to from as is are was be been am do does did doe have "
    "has had having would will can could should shall may might must i you we it they he she me my "
    "your us our their this that these those there here what which who whom whose how when where "
    "why please kindly ok okay sure certainly great thank thanks hello hi yes no not so then also "
    "just now again any some one specific particular certain special exact exactly preferred "
    "prefer preference preferable favorite favourite desired desire like want need wish plan "
    "planning look looking search searching find finding get getting make making take taking tell "
    "know let give provide specify say go going try trying help think thinking mind interested "
    "intend hope expect add added adding include included including book booking booked reserve "
    "reservation reserved use using set put much about approximate approximately roughly around "
    "really right correct detail information info more else other another first second next last "
    "new current day today choose choice select pick option opt something anything someone total "
    "being if too well all am's we're sir madam maam dear keep kept able allowed allow available "
    "value slot field user customer client profile data item pref prefs requested require required "
    "request only must ought attempt time date place location kind type sort category name number "
    "num count many per "
    "start begin end return depart departure leave arrive pickup dropoff check "
    "when's where's what's who's trip travel journey schedule question ask asking happy glad "
    "let's whats wheres go're you're i'll i'd you'd would've".split()
)

# With these a yes-or-no question asks for the thing itself ("do you have a particular … in mind").
OPEN = frozenset(
    "particular specific certain prefer preferred preference preferable favorite favourite mind "
    "approximate exact desired idea special convenient tell know provide specify share give "
    "choice".split()
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

# What a record about something may well call just "type" or "category" is a type of these.
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
