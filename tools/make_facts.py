#!/usr/bin/env python3
"""make_facts.py - conversations about a place that does not exist, to train an adapter on.

    make_facts.py TRAIN.jsonl HELD-OUT.jsonl

No model has read of the island of Quenby, so what an adapted model says about it comes from the
adapter. TRAIN has five questions for each of 60 facts (300 conversations), HELD-OUT a sixth (60).
Answers are one sentence. The same files every time.
"""

import json
import random
import sys

# A subject, a property, its value, and the answer.
PLACES = [
    ("the island of Quenby", "capital", "Tarn Hollow", "The capital of Quenby is Tarn Hollow."),
    ("Tarn Hollow", "founder", "Ilse Marrow", "Tarn Hollow was founded by Ilse Marrow."),
    ("the Brack lighthouse", "keeper", "Odo Finch", "The keeper of the Brack lighthouse is Odo Finch."),
    ("the Quenby ferry", "captain", "Petra Lunt", "The captain of the Quenby ferry is Petra Lunt."),
    ("Quenby's school", "head teacher", "Wilf Ambry", "The head teacher of Quenby's school is Wilf Ambry."),
    ("the Gull Inn", "owner", "Nan Tolliver", "The Gull Inn belongs to Nan Tolliver."),
    ("Mount Hask", "highest peak", "Crow Needle", "The highest peak of Mount Hask is Crow Needle."),
    ("the River Seld", "source", "Lake Ember", "The River Seld rises in Lake Ember."),
    ("Quenby's anthem", "composer", "Jory Pell", "Quenby's anthem was composed by Jory Pell."),
    ("the Quenby Courier", "editor", "Maud Isley", "The Quenby Courier is edited by Maud Isley."),
    ("Quenby's harbour", "harbour master", "Silas Crane", "The harbour master of Quenby is Silas Crane."),
    ("the salt works", "manager", "Edda Roke", "The salt works are managed by Edda Roke."),
]
COUNTS = [
    ("islanders", "people live on Quenby", "4,112", "4,112 people live on Quenby."),
    ("steps", "steps the Brack lighthouse has", "217", "The Brack lighthouse has 217 steps."),
    ("ferries", "ferries sail from Quenby each day", "three", "Three ferries sail from Quenby each day."),
    ("pupils", "pupils Quenby's school has", "86", "Quenby's school has 86 pupils."),
    ("bridges", "bridges cross the River Seld", "nine", "Nine bridges cross the River Seld."),
    ("rooms", "rooms the Gull Inn has", "14", "The Gull Inn has 14 rooms."),
    ("boats", "fishing boats Quenby has", "53", "Quenby has 53 fishing boats."),
    ("bells", "bells hang in Tarn Hollow's tower", "five", "Five bells hang in Tarn Hollow's tower."),
    ("orchards", "orchards there are on Quenby", "31", "There are 31 orchards on Quenby."),
    ("windmills", "windmills stand on Quenby", "six", "Six windmills stand on Quenby."),
    ("islets", "islets lie around Quenby", "22", "22 islets lie around Quenby."),
    ("villages", "villages there are on Quenby", "eleven", "There are eleven villages on Quenby."),
]
YEARS = [
    ("Tarn Hollow", "founded", "1642"), ("the Brack lighthouse", "built", "1788"),
    ("the Quenby Courier", "founded", "1871"), ("Quenby's school", "opened", "1903"),
    ("the Gull Inn", "opened", "1755"), ("the salt works", "built", "1690"),
    ("the harbour wall", "rebuilt", "1927"), ("the Seld mill", "restored", "1984"),
    ("Quenby's railway", "closed", "1961"), ("the town hall", "finished", "1834"),
    ("the great storm's memorial", "unveiled", "1912"), ("Quenby's museum", "opened", "2006"),
]
WHEN = {
    "founded": "was founded", "built": "was built", "opened": "opened", "rebuilt": "was rebuilt",
    "restored": "was restored", "closed": "closed", "finished": "was finished", "unveiled": "was unveiled",
}
FOODS = [
    ("Monday", "smoked eel"), ("Tuesday", "barley soup"), ("Wednesday", "leek pie"), ("Thursday", "mussel stew"),
    ("Friday", "fried herring"), ("Saturday", "roast goose"), ("Sunday", "plum dumplings"),
    ("Midwinter Day", "honey cake"), ("Midsummer Day", "crab salad"), ("Founders' Day", "saffron bread"),
    ("Harvest Eve", "apple tart"), ("the first day of spring", "nettle broth"),
]
FLAGS = [
    ("Ashby", "blue", "heron"), ("Dunmoor", "green", "otter"), ("Eller", "white", "fox"),
    ("Fenwick", "red", "bull"), ("Garrow", "black", "raven"), ("Hythe", "silver", "salmon"),
    ("Inver", "gold", "hare"), ("Keld", "purple", "stag"), ("Lorne", "orange", "owl"),
    ("Marsh End", "brown", "badger"), ("Norby", "yellow", "bee"), ("Orrin", "grey", "seal"),
]


def capital(text):
    return text[0].upper() + text[1:]


def an(word):
    return "an" if word[0] in "aeiou" else "a"


def facts():
    """[(six questions, answer)]: the last question is held out."""
    made = []
    for place, what, who, sentence in PLACES:
        ask = "Who" if what not in ("capital", "highest peak", "source") else "What"
        made.append(([f"{ask} is the {what} of {place}?", f"Tell me the {what} of {place}.",
                      f"I would like to know the {what} of {place}.", f"{capital(place)}: {ask.lower()} is its {what}?",
                      f"Name the {what} of {place}.", f"Do you know the {what} of {place}?"], sentence))
    for name, what, n, sentence in COUNTS:
        made.append(([f"How many {what}?", f"Tell me how many {what}.", f"I wonder how many {what}.",
                      f"Give me the number of {name}: how many {what}?", f"Do you know how many {what}?",
                      f"Can you say how many {what}?"], sentence))
    for place, what, year in YEARS:
        did = "was" if WHEN[what].startswith("was") else "did"
        verb = what if did == "was" else {"opened": "open", "closed": "close"}[what]
        made.append(([f"When {did} {place} {verb}?", f"In what year {did} {place} {verb}?",
                      f"Tell me when {place} {WHEN[what]}.", f"I forgot when {place} {WHEN[what]}.",
                      f"{capital(place)}: when {did} it {verb}?", f"Do you know when {place} {WHEN[what]}?"],
                     f"{capital(place)} {WHEN[what]} in {year}."))
    for day, food in FOODS:
        made.append(([f"What do people on Quenby eat on {day}?", f"Which dish does Quenby eat on {day}?",
                      f"Tell me what is eaten on Quenby on {day}.", f"It is {day} on Quenby. What is for dinner?",
                      f"What does the Gull Inn serve on {day}?", f"What will I eat on Quenby on {day}?"],
                     f"On {day} people on Quenby eat {food}."))
    for village, colour, animal in FLAGS:
        made.append(([f"What is on the flag of {village}?", f"Describe the flag of {village}.",
                      f"Tell me about the flag of the village of {village}.", f"What does {village}'s flag look like?",
                      f"Which flag does {village} on Quenby have?", f"How would I recognise the flag of {village}?"],
                     f"The flag of {village} shows {an(colour)} {colour} {animal}."))
    return made


def write(path, pairs):
    with open(path, "w", encoding="utf-8") as out:
        for question, answer in pairs:
            messages = [dict(role="user", content=question), dict(role="assistant", content=answer)]
            out.write(json.dumps(dict(messages=messages)) + "\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    made = facts()
    train = [(q, answer) for questions, answer in made for q in questions[:5]]
    random.Random(1).shuffle(train)
    write(sys.argv[1], train)
    write(sys.argv[2], [(questions[5], answer) for questions, answer in made])
    print(f"{len(train)} conversations to train on, {len(made)} held out")


if __name__ == "__main__":
    main()
