"""Lost context is noticed: each kind of repeat, and what only looks like one."""

from __future__ import annotations

import asyncio
import json
import math
import string
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateward import InvalidInput, sync
from stateward.repeats import Repeat, find_repeats, find_repeats_async, local_embed, with_receipts
from stateward.repeats.complaints import complains

Message = dict[str, Any]


def talk(*lines: str) -> list[Message]:
    """`u: …` is the user, `a: …` the assistant."""
    roles = {"u": "user", "a": "assistant"}
    return [{"role": roles[line[0]], "content": line[3:]} for line in lines]


def kinds(found: list[Repeat]) -> list[tuple[str, int]]:
    return [(repeat.kind, repeat.at) for repeat in found]


# --- the assistant asks again -----------------------------------------------------------


def test_the_same_question_after_its_answer_is_a_repeat() -> None:
    found = find_repeats(
        talk(
            "u: I want to return a lamp.",
            "a: What is the order number?",
            "u: It is B-7731.",
            "a: Thanks, looking it up.",
            "u: Great.",
            "a: What is the order number?",
        )
    )
    assert [(r.kind, r.at, r.earlier) for r in found] == [("asked_again", 5, 1)]
    assert found[0].evidence == "What is the order number?"
    assert found[0].score >= 0.9


def test_the_same_question_in_other_words_is_a_repeat() -> None:
    found = find_repeats(
        talk(
            "u: A table, please.",
            "a: At what time shall I reserve?",
            "u: Half past seven.",
            "a: And how many guests will there be?",
            "u: Four of us.",
            "a: Which time would suit you?",
        )
    )
    assert kinds(found) == [("asked_again", 5)]


def test_going_and_coming_back_are_two_questions() -> None:
    found = find_repeats(
        talk(
            "u: I need a train to Turin.",
            "a: On which day do you want to leave?",
            "u: On Friday.",
            "a: And on which day will you return?",
        )
    )
    assert found == []


def test_the_origin_and_the_destination_are_two_questions() -> None:
    found = find_repeats(
        talk("u: A coach, please.", "a: Where do you leave from?", "u: Ghent.", "a: Where to?")
    )
    assert found == []


def test_how_many_of_one_thing_is_not_how_many_of_another() -> None:
    lines = talk(
        "u: A holiday home.",
        "a: How many bedrooms do you need?",
        "u: Two.",
        "a: How many guests are coming?",
        "u: Five.",
        "a: How many bedrooms should it have?",
    )
    assert kinds(find_repeats(lines)) == [("asked_again", 5)]


# --- the assistant asks for what is known -----------------------------------------------


@pytest.mark.parametrize(
    ("known", "question"),
    [
        ({"email": "ana@example.org"}, "Could you give me your email address?"),
        ({"contact": {"phone": "555 0101"}}, "What is the best phone number to call?"),
        ({"departure_date": "2 May"}, "On what day do you travel?"),
        ({"departureDate": "2 May"}, "When do you depart from home?"),
        ({"party-size": 4}, "For how many people shall I book?"),
        ({"trip": {"from_town": "Bergen", "to_town": "Oslo"}}, "Where does the trip go to?"),
        ({"gift_wrap": False}, "Would you like gift wrap around it?"),
        ({"pets_allowed": True}, "Do you need a flat that allows pets?"),
        ({"shipping_address": "1 Quay Street"}, "Where should we ship it?"),
        ({"order_id": "B-7731"}, "May I have your order number?"),
        ({"budget": 900}, "How much would you like to spend?"),
        ({"restaurant": {"category": "Thai"}}, "What kind of food do you fancy?"),
        ({"stay_length": "3"}, "How many nights will you stay?"),
        ({"allergies": ["nuts"]}, "Do you have any allergies?"),
        ({"full_name": "Ana Ruiz"}, "Please tell me your full name."),
        ({"seat": "Window"}, "Would you like a window or an aisle seat?"),
        ({"trip": {"class": "business"}}, "Shall it be economy or business?"),
        ({"genre": "Jazz"}, "Do you prefer jazz or rock?"),
    ],
)
def test_asking_for_what_the_state_holds_is_a_repeat(known: dict[str, Any], question: str) -> None:
    (found,) = find_repeats(talk("u: Hello there.", f"a: {question}"), before=known)
    assert (found.kind, found.at, found.earlier) == ("already_given", 1, None)
    assert found.score >= 0.5


@pytest.mark.parametrize(
    ("known", "question"),
    [
        ({"start_date": "2 May"}, "What is your date of birth?"),
        ({"restaurant_name": "Noor"}, "May I have your name?"),
        ({"name": "Ana"}, "What is the name of the hotel?"),
        ({"phone": "555 0101"}, "What is your email address?"),
        ({"phone": "555 0101"}, "Which phone model do you have?"),
        ({"pickup_time": "9:00"}, "What time will you drop the car off?"),
        ({"number_of_rooms": 1}, "How many guests are staying?"),
        ({"from_town": "Bergen"}, "What is the destination of your trip?"),
        ({"city": "Bergen"}, "Where did you hear about us?"),
        ({"date": "2 May"}, "When did the problem begin?"),
        ({"date": "2 May"}, "At what time should I expect you?"),
        ({"movie_name": "Heat"}, "Would you like to buy tickets for that movie?"),
        ({"email": "ana@example.org"}, "Shall I email you the receipt?"),
        ({"time": "9:00"}, "Is that a good time to talk?"),
        ({"email": None, "phone": ""}, "What is your email address?"),
        ({"seat": "Window"}, "Would you like tea or coffee?"),
        ({"gift_wrap": True}, "Is it a birthday or a wedding?"),
        ({"drink": "tea"}, "I can bring you tea or coffee."),
        ({"city": "Bergen"}, "Do you go to Bergen town or to Oslo by train?"),
    ],
)
def test_asking_for_something_else_is_none(known: dict[str, Any], question: str) -> None:
    assert find_repeats(talk("u: Hello there.", f"a: {question}"), before=known) == []


def test_what_the_user_said_unasked_counts_without_any_state() -> None:
    found = find_repeats(
        talk(
            "u: I need a room in Lisbon from May 3rd for two people.",
            "a: Which area do you like?",
            "u: Anywhere quiet.",
            "a: How many people are you?",
        )
    )
    assert ("already_given", 3) in kinds(found)
    assert next(r for r in found if r.at == 3).earlier == 0


def test_a_question_that_brought_the_answer_is_no_repeat_of_it() -> None:
    """The state as it is now holds what this conversation has told."""
    lines = talk(
        "u: I want to book.",
        "a: What is your email address?",
        "u: It is ana@example.org",
        "a: Thank you. How many people are you?",
        "u: Two.",
    )
    known = {"email": "ana@example.org", "people": 2}
    assert find_repeats(lines, user=known) == []
    assert kinds(find_repeats(lines, before={"email": "ana@example.org"})) == [("already_given", 1)]


def test_documents_of_a_context_count_with_their_values() -> None:
    from stateward import Document

    state = {"profile": Document({"email": "ana@example.org"}, 1)}
    found = find_repeats(talk("u: Hi", "a: What is your email?"), before=state)
    assert [r.evidence for r in found] == ["profile.email"]


# --- the user complains -----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "I already told you, it is the blue one.",
        "I’ve already given you my number!",
        "As I said, Friday.",
        "You just asked me that.",
        "Why do you keep asking?",
        "How many times do I have to say it?",
        "Don't you remember what I wrote?",
        "We've been over this.",
        "Stop asking me the same thing.",
        "I told you that twice",
        "Look up!",
        "It is all there, just scroll up a bit.",
        "How often must I repeat my number?",
        "Have you lost track of what I said?",
        "Das habe ich doch schon gesagt.",
        "Ya te lo dije.",
        "Je vous l'ai déjà dit.",
        "Já te disse isso.",
        "Te l'ho già detto!",
    ],
)
def test_a_complaint_is_noticed(text: str) -> None:
    (found,) = find_repeats([{"role": "user", "content": text}])
    assert (found.kind, found.at) == ("complaint", 0)
    assert found.evidence == complains(text)


@pytest.mark.parametrize(
    "text",
    [
        "I already have an account.",
        "I already told my wife about it.",
        "She said that it works.",
        "You asked for the number: it is 12.",
        "I am already there.",
        "Could you ask again tomorrow?",
        "Tell me again what it costs, please.",
        "Please look up my order.",
        "Can you look up the price for me?",
        "How often do you deliver?",
        "How many times do I have to take it a day?",
        "Have you lost my suitcase?",
        "Did you forget to bring the menu?",
    ],
)
def test_what_sounds_like_a_complaint_is_none(text: str) -> None:
    assert find_repeats([{"role": "user", "content": text}]) == []


# --- tools and finished work ------------------------------------------------------------


def chat(call_id: str, arguments: str) -> Message:
    function = {"name": "lookup", "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def chat_result(call_id: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def responses(call_id: str, arguments: str) -> Message:
    return {"type": "function_call", "call_id": call_id, "name": "lookup", "arguments": arguments}


def responses_result(call_id: str, text: str) -> Message:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def anthropic(call_id: str, arguments: str) -> Message:
    use = {"type": "tool_use", "id": call_id, "name": "lookup", "input": json.loads(arguments)}
    return {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, use]}


def anthropic_result(call_id: str, text: str) -> Message:
    part = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return {"role": "user", "content": [part]}


def bedrock(call_id: str, arguments: str) -> Message:
    use = {"toolUseId": call_id, "name": "lookup", "input": json.loads(arguments)}
    return {"role": "assistant", "content": [{"text": "Let me see."}, {"toolUse": use}]}


def bedrock_result(call_id: str, text: str) -> Message:
    result = {"toolUseId": call_id, "content": [{"text": text}]}
    return {"role": "user", "content": [{"toolResult": result}]}


SHAPES = pytest.mark.parametrize(
    ("call", "result"),
    [
        pytest.param(chat, chat_result, id="chat"),
        pytest.param(responses, responses_result, id="responses"),
        pytest.param(anthropic, anthropic_result, id="anthropic"),
        pytest.param(bedrock, bedrock_result, id="bedrock"),
    ],
)
ASKED = {"role": "user", "content": "Where is my parcel?"}


@SHAPES
def test_an_identical_tool_call_is_a_repeat_in_every_shape(call: Any, result: Any) -> None:
    found = find_repeats(
        [
            ASKED,
            call("c1", '{"id": 7, "full": true}'),
            result("c1", "on its way"),
            call("c2", '{"full": true, "id": 7}'),
        ]
    )
    assert [(r.kind, r.at, r.earlier, r.evidence, r.score) for r in found] == [
        ("tool_call", 3, 1, "lookup", 1.0)
    ]


@SHAPES
def test_a_call_with_other_arguments_or_after_a_failure_is_none(call: Any, result: Any) -> None:
    other = [ASKED, call("c1", '{"id": 7}'), result("c1", "none"), call("c2", '{"id": 8}')]
    assert find_repeats(other) == []
    failed = [ASKED, call("c1", '{"id": 7}'), result("c1", "Error: timeout")]
    assert find_repeats([*failed, call("c2", '{"id": 7}')]) == []


def test_a_call_that_says_it_failed_in_its_own_way_may_run_again() -> None:
    for part in (
        {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True},
        {"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "no"}]}},
        {"toolResult": {"toolUseId": "c1", "content": [{"json": {"error": "no such id"}}]}},
    ):
        result = {"role": "user", "content": [part]}
        assert find_repeats([anthropic("c1", "{}"), result, anthropic("c2", "{}")]) == []


def test_a_user_who_asks_to_look_again_gets_a_second_call() -> None:
    first = [ASKED, chat("c1", "{}"), chat_result("c1", "at the depot")]
    again = {"role": "user", "content": "Any news? Please check again."}
    assert find_repeats([*first, again, chat("c2", "{}")]) == []
    thanks = {"role": "user", "content": "Fine, thank you."}
    assert kinds(find_repeats([*first, thanks, chat("c2", "{}")])) == [("tool_call", 4)]


def test_the_same_call_stored_twice_ran_once() -> None:
    assert find_repeats([ASKED, chat("c1", "{}"), chat("c1", "{}")]) == []


FINISHED = (
    "u: A taxi, please.",
    "a: What is the taxi's destination?",
    "u: The central station.",
    "a: At what time should it come?",
    "u: At 6 pm.",
    "a: Your taxi has been booked.",
)


def test_finished_work_that_begins_again_is_noticed() -> None:
    found = find_repeats(talk(*FINISHED, "u: Thank you!", "a: What is the taxi's destination?"))
    assert kinds(found) == [("asked_again", 7), ("restarted", 7)]
    assert found[1].earlier == 5


def test_a_user_who_wants_another_one_is_asked_again() -> None:
    more = ("u: I need another one for my sister.", "a: What is the taxi's destination?")
    assert find_repeats(talk(*FINISHED, *more)) == []


@pytest.mark.parametrize(
    "second",
    [
        "Now I need a taxi.",
        "Great. Next, please book a taxi for us.",
        "After that, could you also find a museum?",
        "One other thing: a taxi to get there.",
    ],
)
def test_a_second_task_is_asked_about_anew(second: str) -> None:
    table = (
        "u: I want to eat Thai food tonight.",
        "a: For how many people?",
        "u: Four.",
        "a: Your table is booked.",
        f"u: {second}",
        "a: For how many people?",
    )
    assert find_repeats(talk(*table)) == []


# --- what only looks like a repeat ------------------------------------------------------

GIVEN = (
    "u: I need a hotel.",
    "a: In which city?",
    "u: Porto.",
    "a: On which date do you arrive?",
    "u: On June 4th.",
)


@pytest.mark.parametrize(
    "line",
    [
        "Anything else I can do for you?",
        "How can I help you today?",
        "How about the Vila Galé in Porto?",
        "What do you think of the Vila Galé?",
        "So you arrive in Porto on June 4th, is that correct?",
        "Please confirm: Porto, June 4th.",
        "Would you like me to book it?",
        "Shall I go ahead?",
        "Does that suit you and your friends?",
        "And you know what? It has a pool.",
        "Who knows, it may rain. Why not take an umbrella?",
        "I found a hotel for that date in that city.",
        "How many nights will you stay?",
        "Until which date will you stay?",
    ],
)
def test_offers_confirmations_and_new_questions_are_none(line: str) -> None:
    known = {"city": "Porto", "check_in_date": "June 4th"}
    assert find_repeats(talk(*GIVEN, f"a: {line}")) == []
    assert find_repeats(talk(*GIVEN, f"a: {line}"), user=known) == []


@pytest.mark.parametrize(
    "text",
    [
        "## In which city?\n\nPorto has many hotels. They are listed below. Prices vary.",
        "On which date? It hardly matters. June is mild. The sea is warm.",
        "Run this:\n```\nprint('In which city?')\n```\nIt prints a line.",
        "> In which city?\n\nThat was answered already, thank you. All is noted.",
    ],
)
def test_questions_that_ask_nobody_are_none(text: str) -> None:
    assert find_repeats([*talk(*GIVEN), {"role": "assistant", "content": text}]) == []


def test_asking_again_after_the_user_wants_a_change_is_none() -> None:
    change = ("a: Noted.", "u: I have to change the date.", "a: Which date would you like?")
    assert find_repeats(talk(*GIVEN, *change)) == []
    assert find_repeats(talk(*GIVEN, *change), user={"date": "June 4th"}) == []
    other = ("a: Noted.", "u: I have to change the date.", "a: In which city?")
    assert kinds(find_repeats(talk(*GIVEN, *other))) == [("asked_again", 7)]


def test_starting_over_on_request_is_none() -> None:
    anew = ("a: Noted.", "u: Let's start over.", "a: In which city?", "u: Faro.", "a: Which date?")
    assert find_repeats(talk(*GIVEN, *anew), user={"city": "Porto"}) == []


def test_a_question_that_was_not_answered_may_come_again() -> None:
    unsure = ("u: A hotel.", "a: On which date?", "u: I don't know yet.", "a: On which date?")
    assert find_repeats(talk(*unsure)) == []
    counter = ("u: A hotel.", "a: In which city?", "u: Which ones are there?", "a: In which city?")
    assert find_repeats(talk(*counter)) == []


def test_a_follow_up_that_takes_up_the_answer_is_none() -> None:
    found = find_repeats(
        talk(
            "u: A hotel.",
            "a: On which date?",
            "u: Some Friday in June.",
            "a: Which Friday would that date be?",
        )
    )
    assert found == []


def test_asking_a_second_person_is_none() -> None:
    ana = {"role": "user", "name": "ana", "content": "At 7 pm."}
    ben = {"role": "user", "name": "ben", "content": "Hello, I come too."}
    question = {"role": "assistant", "content": "At what time do you arrive?"}
    assert find_repeats([question, ana, ben, question]) == []
    assert kinds(find_repeats([question, ana, question])) == [("asked_again", 2)]


def test_a_message_that_also_asks_something_new_is_none() -> None:
    found = find_repeats(talk(*GIVEN, "a: In which city, and how many rooms do you need?"))
    assert found == []


@pytest.mark.parametrize(
    "lines",
    [
        ("u: 我要订酒店", "a: 请问您想去哪个城市?", "u: 上海", "a: 请问您什么时候入住?"),
        ("u: أريد حجز غرفة", "a: في أي مدينة؟", "u: دبي", "a: كم شخصا؟"),
        ("u: Ich brauche ein Zimmer", "a: In welcher Stadt?", "u: Ulm", "a: Ab wann?"),
        ("u: 🏨", "a: 🌍❓", "u: 🇵🇹", "a: 📅❓"),
    ],
)
def test_other_languages_are_read_without_harm(lines: tuple[str, ...]) -> None:
    assert find_repeats(talk(*lines)) == []


def test_a_question_asked_word_for_word_twice_is_noticed_in_any_language() -> None:
    lines = ("a: In welcher Stadt suchen Sie?", "u: Ulm", "a: In welcher Stadt suchen Sie?")
    assert kinds(find_repeats(talk(*lines))) == [("asked_again", 2)]


def test_what_lies_before_the_window_is_forgotten() -> None:
    between = [line for _ in range(20) for line in ("u: Nice.", "a: Indeed it is.")]
    lines = talk("a: In which city?", "u: Porto.", *between, "a: In which city?")
    assert kinds(find_repeats(lines)) == [("asked_again", 42)]
    assert find_repeats(lines, window=10) == []


# Whole conversations of agents that have lost nothing, with a profile that they need not ask for.
PROFILE = {
    "profile": {
        "name": "Ana Ruiz",
        "birthday": "1990-05-01",
        "address": {"street": "5 Elm Street", "city": "Leeds", "country": "UK"},
        "language": "en",
    },
    "account": {"plan": "pro", "created_at": "2024-01-01", "status": "active"},
    "orders": {"last_order": {"id": "1234", "status": "shipped", "total": 45.2}},
}
HONEST = {
    "repair": (
        "u: My laptop does not boot.",
        "a: I am sorry. Which model is it, and when did the problem begin?",
        "u: An X1, yesterday.",
        "a: Do you see an error message?",
        "u: Only a black screen.",
        "a: Does the power light come on when you press the button?",
        "u: Yes.",
        "a: Can you hold the button for 30 seconds? What happens?",
        "u: It beeps.",
        "a: How many beeps do you hear?",
    ),
    "flat": (
        "u: I am looking for a flat.",
        "a: Which city are you looking in?",
        "u: York.",
        "a: How many bedrooms?",
        "u: Two.",
        "a: And how many bathrooms do you need?",
        "u: One.",
        "a: What is the most you would pay each month?",
        "u: 900 pounds.",
        "a: When do you want to move in?",
        "u: On June 1st.",
        "a: Do you need parking?",
        "u: No.",
        "a: When would you like to view it?",
        "u: On Saturday.",
        "a: What time on Saturday?",
        "u: At noon.",
        "a: Who will come to the viewing?",
    ),
    "journey": (
        "u: Plan a journey to Japan for me.",
        "a: When are you going, and for how long?",
        "u: In April, for 10 days.",
        "a: Which cities would you like to see?",
        "u: Tokyo and Kyoto.",
        "a: How many days would you like to spend in Kyoto?",
        "u: Four.",
        "a: From which airport will you fly?",
        "u: Leeds Bradford.",
        "a: Here is your plan. What do you think?",
    ),
    "support": (
        "u: My internet is down.",
        "a: What is your account number?",
        "u: 889977",
        "a: Thank you. What is your postcode?",
        "u: LS6 2AB",
        "a: Which lights are on at the router?",
        "u: A red one.",
        "a: What kind of router is it?",
        "u: A hub.",
        "a: Should the engineer ring you when they arrive?",
    ),
}


@pytest.mark.verify
@pytest.mark.parametrize("name", HONEST)
def test_a_conversation_that_lost_nothing_shows_nothing(name: str) -> None:
    assert find_repeats(talk(*HONEST[name])) == []
    assert find_repeats(talk(*HONEST[name]), user=PROFILE, before=PROFILE) == []
    assert find_repeats(talk(*HONEST[name]), before=PROFILE, embed=local_embed()) == []


# --- models of the caller's own ---------------------------------------------------------

COLOURS = ("a: Which hue shall it have?", "u: Teal.", "a: Fine.", "u: Yes.", "a: Which tint then?")


def vector(text: str) -> list[float]:
    """Hue and tint are the same to it, and nothing else is."""
    return [1.0, 0.0] if {"hue", "tint"} & set(text.lower().strip("?").split()) else [0.0, 1.0]


def test_embed_brings_together_what_the_words_do_not() -> None:
    assert find_repeats(talk(*COLOURS)) == []
    found = find_repeats(talk(*COLOURS), embed=lambda texts: [vector(text) for text in texts])
    assert kinds(found) == [("asked_again", 4)]
    assert found[0].score == pytest.approx(1.0)


def test_the_judge_has_the_last_word() -> None:
    asked: list[tuple[str, str]] = []

    def agree(question: str, earlier: str) -> bool:
        asked.append((question, earlier))
        return True

    assert kinds(find_repeats(talk(*COLOURS), judge=agree)) == [("asked_again", 4)]
    assert asked == [("Which tint then?", "Which hue shall it have? Teal.")]
    asked.clear()
    hello = talk("u: I come from Ghent.", "a: What is your email?", "u: …", "a: Where from?")
    assert len(find_repeats(hello, before={"email": "ana@example.org"}, judge=agree)) == 2
    assert asked == [
        ("What is your email?", "email: ana@example.org"),
        ("Where from?", "I come from Ghent."),
    ]
    again = talk("a: In which city?", "u: Porto.", "a: In which city?")
    assert find_repeats(again, judge=lambda question, earlier: 0.1) == []


def test_models_may_be_async() -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return [vector(text) for text in texts]

    async def judge(question: str, earlier: str) -> float:
        return 0.8

    async def both() -> None:
        found = await find_repeats_async(talk(*COLOURS), embed=embed, judge=judge)
        assert [(r.kind, r.at, r.score) for r in found] == [("asked_again", 4, 0.8)]
        plain = await find_repeats_async(talk(*COLOURS), embed=lambda t: [vector(x) for x in t])
        assert kinds(plain) == [("asked_again", 4)]

    asyncio.run(both())
    with pytest.raises(InvalidInput, match="find_repeats_async"):
        find_repeats(talk(*COLOURS), embed=embed)


def test_what_a_model_raises_comes_through() -> None:
    def fails(texts: list[str]) -> list[list[float]]:
        raise ConnectionError("the model is away")

    with pytest.raises(ConnectionError, match="away"):
        find_repeats(talk(*COLOURS), embed=fails)


@pytest.mark.verify
def test_local_embeddings_need_no_network_and_know_synonyms() -> None:
    embed = local_embed()
    sofa, couch, invoice = embed(["a comfortable sofa", "a comfortable couch", "unpaid invoice"])
    assert cosine(sofa, couch) > cosine(sofa, invoice) + 0.2
    assert embed([""]) != []
    asked = talk("u: A loan.", "a: What is your profession?", "u: Nurse.", "a: Fine.", "u: Good.")
    again = [*asked, *talk("a: What is your occupation?")]
    assert find_repeats(again) == []
    assert kinds(find_repeats(again, embed=embed)) == [("asked_again", 5)]
    other = [*asked, *talk("a: What is your nationality?")]
    assert find_repeats(other, embed=embed) == []


def cosine(one: list[float], other: list[float]) -> float:
    return (
        sum(a * b for a, b in zip(one, other, strict=True))
        / (math.hypot(*one) * math.hypot(*other))
        if one
        else 0.0
    )


# --- wrong input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("hello",), {}, "list of messages"),
        (({"role": "user"},), {}, "list of messages"),
        ((["hello"],), {}, "message 0"),
        (([],), {"user": ["email"]}, "user="),
        (([],), {"before": 7}, "before="),
        (([],), {"embed": "minilm"}, "embed="),
        (([],), {"judge": 3}, "judge="),
        (([],), {"window": 0}, "window="),
        (([],), {"window": True}, "window="),
    ],
)
def test_wrong_input_says_what_to_pass(
    arguments: tuple[Any, ...], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        find_repeats(*arguments, **options)


def test_a_model_that_answers_nonsense_is_told_so() -> None:
    with pytest.raises(InvalidInput, match="one for each"):
        find_repeats(talk(*COLOURS), embed=lambda texts: [[1.0]])
    with pytest.raises(InvalidInput, match="True or False"):
        find_repeats(talk(*COLOURS), judge=lambda question, earlier: "maybe")  # type: ignore[arg-type,return-value]


# --- whatever comes ---------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "toolUse", "name", "input", "id", "content", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
ROLES = st.sampled_from(["user", "assistant", "system", "tool", "", None, 3])
FIELDS = st.sampled_from(["tool_calls", "function_call", "name", "tool_call_id", "output", "type"])
MESSAGES = st.builds(
    lambda role, content, more: {"role": role, "content": content, **more},
    ROLES,
    VALUES | st.text(string.printable, max_size=200),
    st.dictionaries(FIELDS, VALUES, max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGES, max_size=8), st.dictionaries(st.text(max_size=20), VALUES, max_size=5))
def test_any_json_is_read_without_an_exception(
    messages: list[Message], state: dict[str, Any]
) -> None:
    for repeat in find_repeats(messages, user=state, before=state):
        assert 0 <= repeat.at < len(messages)
        assert repeat.earlier is None or 0 <= repeat.earlier <= repeat.at
        assert 0.5 <= repeat.score <= 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*GIVEN, "a: In which city?", "u: Cancel that."]), max_size=12))
def test_a_message_shows_the_same_repeats_whatever_follows(lines: list[str]) -> None:
    whole = find_repeats(talk(*lines))
    for end in range(len(lines)):
        part = find_repeats(talk(*lines[:end]))
        assert part == [repeat for repeat in whole if repeat.at < end]


@pytest.mark.timing
@pytest.mark.parametrize(
    "text",
    [
        "what time " * 20_000,
        "how does " * 20_000,
        "?" * 100_000,
        "1" * 100_000,
        "1-" * 50_000,
        "in A" * 40_000,
        "is there a " * 20_000,
        "x" * 1_000_000,
        "pick the a up " * 10_000,
    ],
    ids=lambda text: text[:10],
)
def test_a_monstrous_message_takes_no_long_time(text: str) -> None:
    lines = talk("u: Hello", f"a: {text}", f"u: {text}", f"a: {text}")
    begun = time.perf_counter()
    find_repeats(lines, user={"note": text, "city": "Porto"})
    assert time.perf_counter() - begun < 1.0


@pytest.mark.timing
def test_a_message_takes_less_than_5_milliseconds() -> None:
    lines = [
        line
        for number in range(100)
        for line in talk(f"u: I think {number} is fine, in Porto.", f"a: What about {number}?")
    ]
    known = {f"slot_{number}_name": str(number) for number in range(200)}
    begun = time.perf_counter()
    find_repeats(lines, user=known)
    assert (time.perf_counter() - begun) / len(lines) < 0.005


def test_a_receipt_tells_what_the_model_had_from_what_never_reached_it() -> None:
    with sync.open("memory://") as store:
        thread = store.thread("s-1", "u-1")
        for said, answer, last in (
            ("I want to return a lamp.", "What is the order number?", 2),
            ("B-7731", "Thank you.", 2),
            ("So?", "Could you give me the order number?", 2),
            ("B-7731!", "Thank you.", 1),
            ("So?", "Could you give me the order number?", 1),
        ):
            window = thread.load(last=last)
            thread.append(
                {"role": "user", "content": said},
                {"role": "assistant", "content": answer},
                saw=window,
            )
        entries = thread.load(entries=True).entries
        repeats = find_repeats([entry.message for entry in entries])
        assert [repeat.given for repeat in repeats] == [None, None]
        shown = [entries[repeat.at].version for repeat in repeats]
        knew = {number: store.knew("s-1", number) for number in shown}
        told = with_receipts(repeats, entries, knew)
        assert [repeat.given for repeat in told] == [True, False]
        assert [repeat.given for repeat in with_receipts(repeats, entries, {})] == [None, None]
