"""Hear the word "Alexa" with two int8 networks, in voices held back.

    python -m docs.applications.wake_word

eSpeak speaks, so each sound has a label. The spectrogram, with its logarithms, stays
float.
"""

from itertools import product

from bench.zoo import shelf
from bench.zoo.listing import entries
from docs.applications.espeak import say
from docs.applications.listening import features, score, windows
from mdtensor.quant import load

SEEN = ["en-us+m1", "en-us+m3", "en-us+f5"]
#: Voices in which the float network hears the word; it does not know all accents.
HELD = ["en-us", "en-gb", "en-gb-x-rp", "en-gb-x-gbclan", "en-us+m6", "en-us+m7"]
SPEEDS, SURE = (140, 160, 180), 0.5
OTHERS = """alexander|a lecture|election|relax|axle|hey jarvis|okay computer|legs|
what time is it|turn the lights off|I like her|the exam is over|good morning|
Alaska is cold|a lexical scope|please call me later""".replace("\n", "").split("|")


def network(name):
    return load(shelf.fetch(entries(name)[0]))


def main():
    mel, embed, head = map(network, ("mel-spectrogram", "wake-embedding", "wake-alexa"))
    spoken = product(["alexa", *OTHERS[::2]], SEEN)
    seen = [windows(mel, say(word, voice, 170)) for word, voice in spoken]
    parts = [part[None] for one in seen for part in one[::9]]
    rows = [row[None] for one in seen[:6] for row in features(embed, one)]
    small = embed.quantize(embed.calibrate(parts)), head.quantize(head.calibrate(rows))
    words = [windows(mel, say("alexa", *how)) for how in product(HELD, SPEEDS)]
    others = [windows(mel, say(*how)) for how in product(OTHERS, HELD)]
    facts = {"words": len(words), "others": len(others)}
    for name, networks in {"float": (embed, head), "int8": small}.items():
        heard = [score(*networks, one) > SURE for one in words]
        false = [score(*networks, one) > SURE for one in others]
        facts[name] = {"heard": sum(heard), "false": sum(false)}
    print(facts)
    return facts


if __name__ == "__main__":
    main()
