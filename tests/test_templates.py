"""The template corpus: its words against babel and num2words, its grammar, and what is held out."""

import itertools

from babel import Locale
from num2words import num2words

from course import templates

FRENCH, ENGLISH = Locale("fr"), Locale("en")


def made(count, seed=3):
    return list(itertools.islice(templates.pairs(seed), count))


def test_months_and_days_are_those_of_the_calendar():
    assert [(FRENCH.months["format"]["wide"][i], ENGLISH.months["format"]["wide"][i]) for i in range(1, 13)] == (
        templates.MONTHS
    )
    assert [(FRENCH.days["format"]["wide"][i], ENGLISH.days["format"]["wide"][i]) for i in range(7)] == templates.DAYS


def test_numbers_are_spelt_as_they_should_be():
    assert [(num2words(n, lang="fr"), num2words(n, lang="en")) for n in range(2, 13)] == templates.NUMBERS


def test_countries_have_the_names_of_the_atlas():
    cities = {"Paris", "London", "Rome", "Berlin", "Tokyo", "Lisbon", "Warsaw", "Geneva"}
    names = {english: FRENCH.territories.get(code, "") for code, english in ENGLISH.territories.items()}
    names |= {"America": "Amérique", "Turkey": names["Türkiye"]}  # "Amériques" and "Türkiye" there
    for article, _, english in templates.PLACES:
        if english not in cities:
            bare = article.removeprefix("l'").split(" ", 1)[-1]
            assert names[english.removeprefix("the ")].replace("’", "'") == bare, english


def test_every_pair_comes_once_and_the_seed_decides():
    pairs = made(5000)
    assert len({pair.french for pair in pairs}) == 5000
    assert pairs == made(5000)
    assert pairs != made(5000, seed=4)


def test_the_same_french_never_has_two_translations():
    pairs = made(30_000, seed=1) + made(30_000, seed=2)
    english = {}
    for pair in pairs:
        assert english.setdefault(pair.french, pair.english) == pair.english


def test_elision():
    for pair in made(20_000):
        for word in ("je", "Je", "ne", "le", "la"):
            for vowel in "aeéèêiîoôuyh":
                assert f" {word} {vowel}" not in f" {pair.french}", pair.french


def test_the_example_and_its_variants_are_held_out():
    for pair in made(60_000, seed=1):
        said = sum(part in pair.english for part in ("Jane ", "visit", "Africa", "in September"))
        if said >= 3 and "Jane and" not in pair.english:
            assert pair.held_out, pair.english


def test_the_grammar_makes_the_sentences_of_the_lecture():
    def verb(english):
        return next(verb for verb in templates.VERBS if verb.english[0] == english)

    words = templates._verb("Jane", verb("visit"), "present", 2, True, False)
    assert templates._sentence([words, "l'Afrique", "en septembre"]) == templates.EXAMPLE[0]
    assert templates._english_verb(verb("visit"), "present", 2, False) == "visits"
    words = templates._verb("Lucas", verb("travel"), "future", 2, False, False)
    assert templates._sentence([words, "en décembre"]) == "Lucas voyagera en décembre."


def test_verbs_are_conjugated():
    def says(english, tense, person, feminine=False, negative=False, subject="x"):
        verb = next(verb for verb in templates.VERBS if verb.english[0] == english)
        return templates._verb(subject, verb, tense, person, feminine, negative)

    assert says("travel", "present", 3) == "x voyageons"
    assert says("live", "present", 0, subject="je") == "j'habite"
    assert says("live", "present", 0, subject="je", negative=True) == "je n'habite pas"
    assert says("go", "future", 5) == "x iront"
    assert says("arrive", "past", 5, feminine=True) == "x sont arrivées"
    assert says("visit", "past", 2, feminine=True, negative=True) == "x n'a pas visité"
    assert says("go", "past", 2, feminine=True) == "x est allée"
