"""Complaints of a user who is asked again: the surest sign that context was lost."""

from __future__ import annotations

import re

_ELSEWHERE = r"(?! (?:my|him|her|them|everyone|everybody|the|a|an|our) )"

ENGLISH = re.compile(
    r"\b(?:"
    rf"(?:i|we)(?:'ve| have| had)? (?:just |literally )?already (?:told|said|gave|given|mentioned|"
    rf"answered|provided|sent|shared|explained|entered|typed|stated|specified)"
    rf"{_ELSEWHERE}|"
    r"(?:i|we)(?:'ve| have)? (?:just|literally|clearly) "
    r"(?:told you|said (?:that|so|it)|answered that)|"
    r"(?:i|we)(?:'ve| have)? told you(?: \w+){0,4} (?:already|before|twice|earlier|just now|ago)|"
    r"(?:i|we)(?:'ve| have)? (?:said|answered|given you) (?:that|this|it) (?:already|before|twice)|"
    r"(?:as|like) (?:i|we)(?:'ve| have)?(?: just| already| previously)? "
    r"(?:said|mentioned|told you|explained|stated)|"
    r"you(?:'ve| have)? (?:already|just) asked|you asked (?:me )?(?:that|this|it)? ?"
    r"(?:already|before|twice|again|earlier|a (?:minute|moment|second) ago)|"
    r"(?:you )?(?:keep|kept) (?:on )?asking|(?:stop|quit) asking|"
    r"asking (?:me )?(?:this |that |it |the same (?:thing|question)s? )?"
    r"(?:again|over and over|twice)|"
    r"how (?:many times|often) (?:do|must|should|will|are|have) (?:i|we|you)(?: \w+){0,3} "
    r"(?:ask(?:ed|ing)?|repeat(?:ed|ing)?|tell|told|say|said|answer(?:ed)?|explain(?:ed)?)\b|"
    r"(?:don't|do not|can't|cannot|didn't) you (?:remember|recall|even remember|read|listen)|"
    r"(?:did|have) you (?:forget|forgotten|forgot)\b(?! to\b)|"
    r"have you lost (?:track|our|what i|everything i|the (?:thread|context|conversation))|"
    r"you(?:'ve| have)? (?:already )?"
    r"forg[eo]t(?:ten)? (?:what|that|my|everything|already|again)|"
    r"are you (?:even )?(?:listening|reading|paying attention)|"
    r"we(?:'ve| have)? (?:already )?(?:been|gone|went|just went) (?:over|through) (?:this|that|it)|"
    r"(?:same|identical) questions? (?:again|twice|over)|scroll (?:back )?up\b|"
    # "Look up" alone refers to the text above; "look up my order" is a request.
    r"look (?:back |further )?up(?: there)?(?=\s*(?:[.!]|$))|"
    r"(?:i|we) (?:have to|must) repeat (?:myself|ourselves)|repeating (?:myself|ourselves)|"
    r"see (?:my|the) (?:previous|earlier|last) (?:message|answer|reply)"
    r")",
    re.IGNORECASE,
)
OTHERS = re.compile(
    r"\b(?:ich (?:das |es |ihnen |dir )*(?:doch )?(?:schon|bereits) (?:\w+ )?(?:gesagt|genannt|"
    r"geschrieben|beantwortet)|(?:schon|bereits) (?:gesagt|genannt|beantwortet)|"
    r"ya (?:te|se|le|os) ?(?:lo|la)? ?(?:dije|he dicho|di|expliqu[ée])|"
    r"(?:je|j')\s?(?:vous|te|t')?\s?(?:l'|le )?ai d[ée]j[àa] (?:dit|donn[ée]|r[ée]pondu)|"
    r"l'ai d[ée]j[àa] dit|j[áa] (?:te |lhe |vos )?(?:disse|falei|respondi|informei)|"
    r"(?:te |ve |gliel)?l?'?ho gi[àa] detto|(?:heb ik|ik heb) (?:dat |het |je )*al gezegd)",
    re.IGNORECASE,
)


def complains(text: str) -> str | None:
    """Return the words with which the user complains of being asked again, or None."""
    short = text.replace("’", "'")
    match = ENGLISH.search(short) or OTHERS.search(short)
    return None if match is None else match.group()
