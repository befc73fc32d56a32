"""French sentences with their English translations, made from a small grammar: as many as are wanted."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

# (French, English, person): person 0 to 5 is je, tu, il/elle, nous, vous, ils/elles; feminine for the past participle
SUBJECTS = [
    ("je", "I", 0, False),
    ("tu", "you", 1, False),
    ("il", "he", 2, False),
    ("elle", "she", 2, True),
    ("nous", "we", 3, False),
    ("vous", "you", 4, False),
    ("ils", "they", 5, False),
    ("elles", "they", 5, True),
    *((name, name, 2, True) for name in ("Jane", "Marie", "Anna", "Emma", "Sofia", "Claire", "Julie", "Alice")),
    *((name, name, 2, False) for name in ("Lucas", "Paul", "Pierre", "Hugo", "Thomas", "Louis", "Victor", "Adam")),
    ("ma sœur", "my sister", 2, True),
    ("mon frère", "my brother", 2, False),
    ("notre professeur", "our teacher", 2, False),
    ("les étudiants", "the students", 5, False),
    ("mes amis", "my friends", 5, False),
    ("Jane et Lucas", "Jane and Lucas", 5, False),
]
PRONOUNS = 8  # so many of SUBJECTS are pronouns, which begin with a small letter within a sentence


@dataclass(frozen=True)
class Verb:
    """A verb in both languages. `object` says what follows: the place itself, "in" it, or "to" it."""

    present: tuple[str, str, str, str, str, str]
    future: str  # the stem
    participle: str
    english: tuple[str, str, str]  # present, third person, past
    object: str
    etre: bool = False  # the past is made with être


def _regular(stem: str, english: tuple[str, str, str], object: str, etre: bool = False) -> Verb:
    nous = "e" if stem.endswith("g") else ""  # voyageons
    endings = ("e", "es", "e", nous + "ons", "ez", "ent")
    return Verb(tuple(stem + ending for ending in endings), stem + "er", stem + "é", english, object, etre)  # type: ignore[arg-type]


VERBS = [
    _regular("visit", ("visit", "visits", "visited"), "place"),
    _regular("aim", ("love", "loves", "loved"), "place"),
    _regular("quitt", ("leave", "leaves", "left"), "place"),
    _regular("travers", ("cross", "crosses", "crossed"), "place"),
    _regular("étudi", ("study", "studies", "studied"), "place"),
    _regular("voyag", ("travel", "travels", "travelled"), "in"),
    _regular("habit", ("live", "lives", "lived"), "in"),
    _regular("travaill", ("work", "works", "worked"), "in"),
    _regular("chant", ("sing", "sings", "sang"), "in"),
    _regular("rest", ("stay", "stays", "stayed"), "in", etre=True),
    _regular("arriv", ("arrive", "arrives", "arrived"), "in", etre=True),
    _regular("retourn", ("return", "returns", "returned"), "to", etre=True),
    Verb(("vais", "vas", "va", "allons", "allez", "vont"), "ir", "allé", ("go", "goes", "went"), "to", etre=True),
]
AVOIR = ("ai", "as", "a", "avons", "avez", "ont")
ETRE = ("suis", "es", "est", "sommes", "êtes", "sont")
FUTURE = ("ai", "as", "a", "ons", "ez", "ont")

# (with its article, "in" or "to" it, English)
PLACES = [
    *((f"l'{name}", f"en {name}", english) for name, english in [
        ("Afrique", "Africa"), ("Asie", "Asia"), ("Europe", "Europe"), ("Amérique", "America"),
        ("Allemagne", "Germany"),
        ("Italie", "Italy"), ("Espagne", "Spain"), ("Inde", "India"), ("Irlande", "Ireland"), ("Autriche", "Austria"),
        ("Argentine", "Argentina"), ("Australie", "Australia"), ("Islande", "Iceland"), ("Égypte", "Egypt"),
    ]),
    *((f"la {name}", f"en {name}", english) for name, english in [
        ("France", "France"), ("Chine", "China"), ("Grèce", "Greece"), ("Suisse", "Switzerland"), ("Norvège", "Norway"),
        ("Suède", "Sweden"), ("Finlande", "Finland"), ("Pologne", "Poland"), ("Turquie", "Turkey"),
        ("Tunisie", "Tunisia"),
        ("Belgique", "Belgium"), ("Colombie", "Colombia"), ("Hongrie", "Hungary"), ("Roumanie", "Romania"),
    ]),
    *((f"le {name}", f"au {name}", english) for name, english in [
        ("Japon", "Japan"), ("Canada", "Canada"), ("Brésil", "Brazil"), ("Portugal", "Portugal"), ("Maroc", "Morocco"),
        ("Mexique", "Mexico"), ("Danemark", "Denmark"), ("Pérou", "Peru"), ("Chili", "Chile"), ("Kenya", "Kenya"),
        ("Sénégal", "Senegal"), ("Laos", "Laos"), ("Népal", "Nepal"),
    ]),
    ("les États-Unis", "aux États-Unis", "the United States"),
    ("les Pays-Bas", "aux Pays-Bas", "the Netherlands"),
    *((name, f"à {name}", english) for name, english in [
        ("Paris", "Paris"), ("Londres", "London"), ("Rome", "Rome"), ("Berlin", "Berlin"), ("Tokyo", "Tokyo"),
        ("Lisbonne", "Lisbon"), ("Varsovie", "Warsaw"), ("Genève", "Geneva"),
    ]),
]  # fmt: skip
MONTHS = [
    ("janvier", "January"), ("février", "February"), ("mars", "March"), ("avril", "April"), ("mai", "May"),
    ("juin", "June"),
    ("juillet", "July"), ("août", "August"), ("septembre", "September"), ("octobre", "October"),
    ("novembre", "November"),
    ("décembre", "December"),
]  # fmt: skip
DAYS = [
    ("lundi", "Monday"), ("mardi", "Tuesday"), ("mercredi", "Wednesday"), ("jeudi", "Thursday"), ("vendredi", "Friday"),
    ("samedi", "Saturday"), ("dimanche", "Sunday"),
]  # fmt: skip
NUMBERS = [
    ("deux", "two"), ("trois", "three"), ("quatre", "four"), ("cinq", "five"), ("six", "six"), ("sept", "seven"),
    ("huit", "eight"), ("neuf", "nine"), ("dix", "ten"), ("onze", "eleven"), ("douze", "twelve"),
]  # fmt: skip
TIMES = [
    *((f"en {french}", f"in {english}", "any") for french, english in MONTHS),
    *((french, f"on {english}", "any") for french, english in DAYS),
    *((f"pendant {french} jours", f"for {english} days", "any") for french, english in NUMBERS),
    *((f"avec {french} amis", f"with {english} friends", "any") for french, english in NUMBERS),
    ("chaque année", "every year", "present"),
    ("souvent", "often", "present"),
    ("demain", "tomorrow", "future"),
    ("l'année prochaine", "next year", "future"),
    ("hier", "yesterday", "past"),
    ("l'année dernière", "last year", "past"),
]
PROFESSIONS = [
    ("étudiant", "étudiante", "student"), ("professeur", "professeure", "teacher"), ("médecin", "médecin", "doctor"),
    ("boulanger", "boulangère", "baker"), ("musicien", "musicienne", "musician"), ("avocat", "avocate", "lawyer"),
    ("infirmier", "infirmière", "nurse"), ("peintre", "peintre", "painter"), ("ingénieur", "ingénieure", "engineer"),
]  # fmt: skip
VOWELS = tuple("aeiouyhàâéèêîôœAEIOUYHÀÂÉÈÊÎÔŒ")

# The running example of chapters 09 and 10. What has three of its four parts is never trained on.
EXAMPLE = ("Jane visite l'Afrique en septembre.", "Jane visits Africa in September.")
EXAMPLE_PARTS = frozenset({"Jane", "visit", "Africa", "in September"})


@dataclass(frozen=True)
class Pair:
    """A sentence in both languages, and the English names of the parts it was made from."""

    french: str
    english: str
    parts: frozenset[str]

    @property
    def held_out(self) -> bool:
        """Whether it is kept out of training: variants of the example, and one combination in twenty besides."""
        if len(self.parts & EXAMPLE_PARTS) >= 3:
            return True
        return hashlib.sha256("|".join(sorted(self.parts)).encode()).digest()[0] < 13  # 13/256 = 5 %


def pairs(seed: int) -> Iterator[Pair]:
    """Sentence pairs without end, each once, in an order that depends on `seed` alone."""
    dice = random.Random(seed)
    seen: set[str] = set()
    while True:
        pair = _profession(dice) if dice.random() < 0.1 else _journey(dice)
        if pair.french not in seen:
            seen.add(pair.french)
            yield pair


def _journey(dice: random.Random) -> Pair:
    index = dice.randrange(len(SUBJECTS))
    subject, subject_english, person, feminine = SUBJECTS[index]
    verb = dice.choice(VERBS)
    when, when_english, tense = dice.choice(TIMES)
    tense = dice.choice(["present", "future", "past"]) if tense == "any" else tense
    negative = dice.random() < 0.15
    words = [_verb(subject, verb, tense, person, feminine, negative)]
    english = [subject_english, _english_verb(verb, tense, person, negative)]
    parts = {subject_english, verb.english[0], when_english}
    if verb.object == "place" or verb.english[0] == "live" or dice.random() < 0.8:
        place, inside, place_english = dice.choice(PLACES)
        words.append(place if verb.object == "place" else inside)
        english.append({"place": "", "in": "in ", "to": "to "}[verb.object] + place_english)
        parts.add(place_english)
    first = dice.random() < 0.2 and when != "souvent"
    if first:
        words, english = [f"{when},", *words], [f"{when_english},", *english]
    else:
        words, english = [*words, when], [*english, when_english]
    return Pair(_sentence(words), _sentence(english), frozenset(parts))


def _profession(dice: random.Random) -> Pair:
    subject, subject_english, person, feminine = SUBJECTS[dice.randrange(PRONOUNS + 16)]
    masculine, feminine_form, english = dice.choice(PROFESSIONS)
    plural = person in (3, 5)
    noun = (feminine_form if feminine else masculine) + ("s" if plural else "")
    negative = dice.random() < 0.15
    is_french = _negated(ETRE[person]) if negative else ETRE[person]
    is_english = ("am", "are", "is", "are", "are", "are")[person] + (" not" if negative else "")
    article = "" if plural else "an " if english[0] in "aeiou" else "a "
    french = [subject, is_french, noun]
    said = [subject_english, is_english, f"{article}{english}{'s' if plural else ''}"]
    parts = {subject_english, "be", english}
    if dice.random() < 0.7:
        _, inside, place_english = dice.choice(PLACES)
        french, said = [*french, inside], [*said, f"in {place_english}"]
        parts.add(place_english)
    return Pair(_sentence(french), _sentence(said), frozenset(parts))


def _negated(verb: str) -> str:
    return ("n'" if verb.startswith(VOWELS) else "ne ") + verb + " pas"


def _verb(subject: str, verb: Verb, tense: str, person: int, feminine: bool, negative: bool) -> str:
    """Subject and verb in French, with elision: j'habite, il n'a pas visité."""
    rest = ""
    if tense == "present":
        form = verb.present[person]
    elif tense == "future":
        form = verb.future + FUTURE[person]
    else:
        form = (ETRE if verb.etre else AVOIR)[person]
        agreement = (("e" if feminine else "") + ("s" if person >= 3 else "")) if verb.etre else ""
        rest = f" {verb.participle}{agreement}"
    if negative:
        form = _negated(form)
    elif subject == "je" and form.startswith(VOWELS):
        return f"j'{form}{rest}"
    return f"{subject} {form}{rest}"


def _english_verb(verb: Verb, tense: str, person: int, negative: bool) -> str:
    base, third, past = verb.english
    if tense == "future":
        return f"will not {base}" if negative else f"will {base}"
    if negative:
        return f"{'did' if tense == 'past' else 'does' if person == 2 else 'do'} not {base}"
    return past if tense == "past" else third if person == 2 else base


def _sentence(words: list[str]) -> str:
    text = " ".join(words)
    return text[0].upper() + text[1:] + "."
